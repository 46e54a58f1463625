//! The remote transport: one endpoint over HTTP, with server-sent events or WebSocket.
//!
//! The library queues events without a bound and does not report the length of its queue, so what clients read of their
//! event streams is counted. The [`ClientWires`] of a connection are created inside the request that opens it
//! ([`EventStreams::begin`]) and handed to the middleware through a task-local, because the connection's id only
//! appears in the headers of the response. Later requests that open an event stream find them by that id. A WebSocket
//! has one message per frame; written updates are counted there, too.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use agent_client_protocol::{Agent, Client, ConnectTo, Error, Lines};
use agent_client_protocol_http::{AcpHttpServer, ServerOptions};
use axum::{
    RequestExt as _, Router,
    body::Body,
    extract::{
        Request, State, WebSocketUpgrade,
        ws::{Message, WebSocket},
    },
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    serve::ListenerExt as _,
};
use crow_runtime::{AccessToken, is_loopback_host};
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _, future::ready, stream};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    connection::AcpConnection,
    serve::{AcpError, AcpServer, ServerShared, agent},
    wire::{ClientWire, ClientWires, MAX_LINE_BYTES, UNPARSABLE_LINE},
};

/// Path of the endpoint.
const ENDPOINT: &str = "/acp";

/// Access check of requests.
#[derive(Debug, Clone)]
struct AccessPolicy {
    token: Option<AccessToken>,
}

/// State of the middleware that admits requests and serves WebSocket connections.
#[derive(Debug, Clone)]
struct EndpointState {
    door: AccessPolicy,
    server: AcpServer,
    streams: EventStreams,
    /// Number of WebSocket connections that were opened so far.
    sockets: Arc<AtomicU64>,
    ending: TaskTracker,
    ended: CancellationToken,
}

/// Disables the delay of small packets: messages are small and come one by one, and each would be delayed by 40 ms.
fn send_at_once(stream: &mut TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "messages may come late");
    }
}

impl AcpServer {
    /// Serves clients over HTTP at `/acp` until `stop` resolves. Requests that lack the `token` are refused. Without a
    /// token, the listener must be on a loopback address, and only programs of this machine are served: requests of
    /// browser pages are refused.
    pub async fn serve_http(
        &self,
        listener: TcpListener,
        token: Option<AccessToken>,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), AcpError> {
        let address = listener.local_addr().map_err(|error| AcpError::new(error.to_string()))?;
        if token.is_none() && !address.ip().is_loopback() {
            return Err(AcpError::new(format!(
                "{address} can be reached by others, so a token is needed"
            )));
        }
        let (ending, ended) = (TaskTracker::new(), CancellationToken::new());
        let router = self.router(EndpointState {
            door: AccessPolicy { token },
            server: self.clone(),
            streams: EventStreams::default(),
            sockets: Arc::default(),
            ending: ending.clone(),
            ended: ended.clone(),
        });
        let served = axum::serve(listener.tap_io(send_at_once), router);
        let result = tokio::select! {
            result = served => result.map_err(|error| AcpError::new(error.to_string())),
            () = stop => Ok(()),
        };
        // End the WebSockets and the other connections, then wait until their sessions are closed.
        ended.cancel();
        self.shared().end_all().await;
        ending.close();
        ending.wait().await;
        result
    }

    fn router(&self, hall: EndpointState) -> Router {
        let (shared, ending) = (Arc::clone(self.shared()), hall.ending.clone());
        let server = AcpHttpServer::new(move || {
            let ways = EventStreams::begin();
            let connection = AcpConnection::new(Arc::clone(&shared), ways);
            Component { shared: Arc::clone(&shared), connection, ending: ending.clone() }
        });
        let options = ServerOptions::default().with_path(ENDPOINT).with_health_endpoint(false);
        let router = server.with_options(options).into_router();
        router.layer(middleware::from_fn_with_state(hall, admit))
    }
}

/// Protocol handler of one connection with event streams.
struct Component {
    shared: Arc<ServerShared>,
    connection: Arc<AcpConnection>,
    ending: TaskTracker,
}

impl ConnectTo<Client> for Component {
    async fn connect_to(self, client: impl ConnectTo<Agent>) -> Result<(), Error> {
        self.shared.connected(&self.connection);
        // A guard, because the transport may drop this future at any await.
        let closing =
            ConnectionCloseGuard { connection: Arc::clone(&self.connection), ending: self.ending };
        let agent = agent(&self.connection);
        let served = ConnectTo::<Client>::connect_to(agent, client).await;
        drop(closing);
        served
    }
}

/// Guard that closes the sessions of a connection when it is dropped.
struct ConnectionCloseGuard {
    connection: Arc<AcpConnection>,
    ending: TaskTracker,
}

impl Drop for ConnectionCloseGuard {
    fn drop(&mut self) {
        let connection = Arc::clone(&self.connection);
        self.ending.spawn(async move { connection.end().await });
    }
}

/// Middleware that refuses requests without access, and serves WebSocket connections itself.
async fn admit(State(hall): State<EndpointState>, request: Request, next: Next) -> Response {
    if let Some((status, reason)) = refusal(&hall.door, request.headers()) {
        return (status, reason).into_response();
    }
    let upgrade = request.headers().get(header::UPGRADE);
    let wants_socket = upgrade.is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"));
    if wants_socket && request.uri().path() == ENDPOINT {
        return hall.socket(request).await;
    }
    hall.streams.answer(request, next).await
}

impl EndpointState {
    /// Serves a client over a WebSocket. The library could do so, but its queue has no bound.
    async fn socket(self, request: Request) -> Response {
        let upgrade = match request.extract::<WebSocketUpgrade, _>().await {
            Ok(upgrade) => upgrade,
            Err(rejection) => return rejection.into_response(),
        };
        let upgrade = upgrade.max_message_size(MAX_LINE_BYTES).max_frame_size(MAX_LINE_BYTES);
        let Self { server, sockets, ending, ended, .. } = self;
        let number = sockets.fetch_add(1, Ordering::Relaxed);
        let mut response = upgrade.on_upgrade(move |socket| {
            ending.track_future(async move {
                let wire = Arc::new(ClientWire::default());
                let transport = messages(socket, Arc::clone(&wire));
                let served = server.serve_over(transport, wire, ended.cancelled()).await;
                if let Err(error) = served {
                    tracing::debug!(%error, "a connection over a WebSocket broke down");
                }
            })
        });
        // For people who debug the connection: no request can be made with this id.
        response.headers_mut().insert(CONNECTION, HeaderValue::from(number));
        response
    }
}

/// Returns the status and the reason with which a request is refused, if it is.
fn refusal(door: &AccessPolicy, headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
    if let Some(token) = &door.token {
        let presented = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let presented =
            presented.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        return (!token.matches(presented))
            .then_some((StatusCode::UNAUTHORIZED, "the token is missing or wrong\n"));
    }
    // A browser page can reach this address, also under a host name of its own.
    if headers.contains_key(header::ORIGIN) {
        return Some((StatusCode::FORBIDDEN, "pages of a browser need a token\n"));
    }
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    (!is_loopback_host(host)).then_some((StatusCode::FORBIDDEN, "the host is not this machine\n"))
}

/// Creates a transport from a WebSocket. Binary messages become [`UNPARSABLE_LINE`].
pub(super) fn messages(
    socket: WebSocket,
    wire: Arc<ClientWire>,
) -> Lines<
    impl Sink<String, Error = io::Error> + Send + 'static,
    impl Stream<Item = io::Result<String>> + Send + 'static,
> {
    let (outgoing, incoming) = socket.split();
    let (counter, closer) = (Arc::clone(&wire), Arc::clone(&wire));
    let outgoing = outgoing
        .with(move |message: String| {
            counter.count_written(message.as_bytes());
            ready(Ok::<_, axum::Error>(Message::Text(message.into())))
        })
        .sink_map_err(move |error| {
            // The client no longer reads: it is gone.
            closer.end();
            io::Error::other(error)
        });
    let incoming = stream::unfold((incoming, wire), |(mut incoming, wire)| async move {
        loop {
            let message = match incoming.next().await {
                Some(Ok(Message::Text(text))) => text.to_string(),
                Some(Ok(Message::Binary(_))) => UNPARSABLE_LINE.to_owned(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                Some(Ok(Message::Close(_)) | Err(_)) | None => {
                    wire.end();
                    return None;
                }
            };
            return Some((Ok(message), (incoming, wire)));
        }
    });
    Lines::new(outgoing, incoming)
}

/// Header with the id of a connection.
const CONNECTION: &str = "acp-connection-id";
/// Header with the id of a session.
const SESSION: &str = "acp-session-id";

tokio::task_local! {
    /// Wires of the connection that the current request creates.
    static MADE: Arc<OnceLock<Arc<ClientWires>>>;
}

/// Wires of the connections whose clients open event streams, by connection id.
#[derive(Debug, Clone, Default)]
struct EventStreams {
    connections: Arc<Mutex<HashMap<String, Weak<ClientWires>>>>,
}

impl EventStreams {
    /// Creates the wires of a connection. Must be called while the request that opens the connection is answered.
    pub(super) fn begin() -> Arc<ClientWires> {
        let ways = Arc::new(ClientWires::of_sessions());
        // Connections are only created within the scope of `MADE`.
        drop(MADE.try_with(|made| made.set(Arc::clone(&ways))));
        ways
    }

    /// Middleware that answers a request, and counts what the client reads of an event stream that it opens.
    pub(super) async fn answer(&self, request: Request, next: Next) -> Response {
        if request.method() == Method::GET {
            let headers = request.headers().clone();
            return self.count_reads(&headers, next.run(request).await);
        }
        let made = Arc::new(OnceLock::new());
        let response = MADE.scope(Arc::clone(&made), next.run(request)).await;
        if let (Some(ways), Some(id)) = (made.get(), text(response.headers(), CONNECTION)) {
            let mut connections = self.connections();
            connections.retain(|_, ways| ways.strong_count() > 0);
            connections.insert(id.to_owned(), Arc::downgrade(ways));
        }
        response
    }

    fn count_reads(&self, headers: &HeaderMap, response: Response) -> Response {
        let (Some(connection), Some(session)) = (text(headers, CONNECTION), text(headers, SESSION))
        else {
            return response;
        };
        let ways = self.connections().get(connection).and_then(Weak::upgrade);
        let Some(ways) = ways.filter(|_| response.status().is_success()) else { return response };
        let wire = ways.wire_of(session);
        response.map(|body| {
            // Each event is one chunk of the body, and is polled when the socket has room for it.
            Body::from_stream(body.into_data_stream().inspect(move |chunk| {
                if let Ok(chunk) = chunk {
                    wire.count_written(chunk);
                }
            }))
        })
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<String, Weak<ClientWires>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use axum::{
        Router,
        middleware::{Next, from_fn_with_state},
        response::{
            IntoResponse as _,
            sse::{Event, Sse},
        },
        routing::get,
    };
    use futures_util::stream;
    use tower::ServiceExt as _;

    use super::*;

    fn headers(list: &[(header::HeaderName, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[tokio::test]
    async fn messages_are_sent_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _client = TcpStream::connect(address).await.unwrap();
        let mut listener = listener.tap_io(send_at_once);
        let (stream, _) = axum::serve::Listener::accept(&mut listener).await;
        assert!(stream.nodelay().unwrap());
    }

    #[test]
    fn without_a_token_only_programs_of_this_machine_are_admitted() {
        let door = AccessPolicy { token: None };
        let status = |list: &[(header::HeaderName, &str)]| {
            refusal(&door, &headers(list)).map(|(status, _)| status.as_u16())
        };
        for host in ["127.0.0.1:7", "localhost", "LOCALHOST:80", "[::1]:9", "127.9.9.9"] {
            assert_eq!(status(&[(header::HOST, host)]), None, "{host}");
        }
        for host in ["", "evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1:7"]
        {
            assert_eq!(status(&[(header::HOST, host)]), Some(403), "{host}");
        }
        let origin = (header::ORIGIN, "http://localhost");
        assert_eq!(status(&[(header::HOST, "localhost"), origin]), Some(403));
    }

    #[test]
    fn with_a_token_only_requests_that_carry_it_are_admitted() {
        let token = "0123456789abcdef";
        let door = AccessPolicy { token: AccessToken::new(token) };
        let status = |shown: &str| {
            refusal(&door, &headers(&[(header::AUTHORIZATION, shown)]))
                .map(|(status, _)| status.as_u16())
        };
        assert_eq!(status(&format!("Bearer {token}")), None);
        for shown in ["", "Bearer ", token, "Bearer 0123456789abcdeX", "Bearer 0123456789abcdef0"] {
            assert_eq!(status(shown), Some(401), "{shown}");
        }
    }

    const UPDATE: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{}}"#;

    fn request(method: &str, session: Option<&str>) -> Request {
        let request = Request::builder().method(method).uri("/").header(CONNECTION, "c");
        let request = match session {
            Some(session) => request.header(SESSION, session),
            None => request,
        };
        request.body(Body::empty()).unwrap()
    }

    #[tokio::test]
    async fn reading_an_event_stream_makes_room_for_more_updates_of_its_session() {
        let streams = EventStreams::default();
        let made = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&made);
        let begin = move || async move {
            *slot.lock().unwrap() = Some(EventStreams::begin());
            [(CONNECTION, "c")].into_response()
        };
        let events = || async {
            let events = stream::repeat(UPDATE).take(1000).map(|data| Event::default().data(data));
            Sse::new(events.map(Ok::<_, std::convert::Infallible>))
        };
        let layer = from_fn_with_state(
            streams.clone(),
            |axum::extract::State(streams): axum::extract::State<EventStreams>,
             request: Request,
             next: Next| async move { streams.answer(request, next).await },
        );
        let router = Router::new().route("/", get(events).post(begin)).layer(layer);
        router.clone().oneshot(request("POST", None)).await.unwrap();
        let ways = made.lock().unwrap().clone().unwrap();
        let wire = ways.wire_of("s");
        for _ in 0..1000 {
            wire.count_sent();
        }
        assert!(futures_util::poll!(std::pin::pin!(wire.wait_for_room())).is_pending());
        let response = router.oneshot(request("GET", Some("s"))).await.unwrap();
        let mut taken = response.into_body().into_data_stream();
        for _ in 0..744 {
            taken.next().await.unwrap().unwrap();
        }
        assert!(futures_util::poll!(std::pin::pin!(wire.wait_for_room())).is_pending(), "256 wait");
        taken.next().await.unwrap().unwrap();
        assert!(futures_util::poll!(std::pin::pin!(wire.wait_for_room())).is_ready());
        assert!(
            futures_util::poll!(std::pin::pin!(ways.wire_of("other").wait_for_room())).is_ready()
        );
    }
}
