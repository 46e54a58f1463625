//! Counts what clients read of their event streams, because the library queues without a bound and does not report its
//! queue length.
//!
//! The [`Ways`] of a connection are created inside the request that opens it ([`EventStreams::begin`]) and handed to
//! the middleware through a task-local, because the connection's id only appears in the headers of the response.
//! Later requests that open an event stream find them by that id.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, Method},
    middleware::Next,
    response::Response,
};
use futures_util::StreamExt as _;

use super::client_wires::ClientWires;

/// Header with the id of a connection.
pub(super) const CONNECTION: &str = "acp-connection-id";
/// Header with the id of a session.
const SESSION: &str = "acp-session-id";

tokio::task_local! {
    /// Wires of the connection that the current request creates.
    static MADE: Arc<OnceLock<Arc<ClientWires>>>;
}

/// Wires of the connections whose clients open event streams, by connection id.
#[derive(Debug, Clone, Default)]
pub(super) struct EventStreams {
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
