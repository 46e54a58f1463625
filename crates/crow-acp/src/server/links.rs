//! MCP servers that a client serves itself: requests to them over its connection, and their notifications.
//!
//! Every request under way has an entry in [`Links::open`], whose bounded channel takes the notifications that name it.
//! The entry lives as long as the stream of messages that the caller reads: dropping the stream withdraws the request.
//! A stream ends with the outcome of its request, after the notifications that arrived before.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use agent_client_protocol::{
    Error, is_connection_terminated, is_incoming_transport_closed,
    schema::MaybeUndefined,
    v1::schema::{McpServerAcp, MessageMcpNotification, MessageMcpRequest, MessageMcpResponse},
};
use async_trait::async_trait;
use crow_core::{
    capability::{McpLink, McpLinkError, McpLinkMessage, McpLinkMessages, McpLinkRequest},
    mcp::{ClientServer, McpServerConfig, McpTransport},
};
use futures_util::stream;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::peer::{Peer, WaitedFuture};

/// Number of unread notifications per request. Further ones are dropped.
const MAX_UNREAD_NOTIFICATIONS: usize = 64;
/// Limit of concurrent requests of a connection.
const REQUESTS: usize = 1024;

/// Requests to the servers that the client of a connection serves.
#[derive(Debug)]
pub(super) struct Links {
    /// Number of the next request, unique within the connection.
    next: AtomicU64,
    open: Mutex<HashMap<String, OpenLinkRequest>>,
    /// Cancelled when the client is gone.
    ended: CancellationToken,
}

/// A request under way.
#[derive(Debug)]
struct OpenLinkRequest {
    server: Arc<str>,
    notifications: mpsc::Sender<MessageMcpNotification>,
}

/// Future of the response to a request.
type LinkResponse = WaitedFuture<'static, Result<MessageMcpResponse, Error>>;

impl Links {
    /// Creates the links of a connection that lasts until `ended` is cancelled.
    pub(super) fn new(ended: &CancellationToken) -> Arc<Self> {
        let ended = ended.child_token();
        Arc::new(Self { next: AtomicU64::default(), open: Mutex::default(), ended })
    }

    /// Returns the configuration of a server that is reached over this connection.
    pub(super) fn server(
        self: &Arc<Self>,
        peer: &Arc<dyn Peer>,
        server: McpServerAcp,
    ) -> McpServerConfig {
        let link = ClientServerLink {
            id: Arc::clone(&server.server_id.0),
            peer: Arc::clone(peer),
            links: Arc::clone(self),
        };
        let transport = McpTransport::Client(ClientServer::new(Arc::new(link)));
        McpServerConfig { name: server.name, transport }
    }

    /// Delivers a notification to the request that it names, and ignores it if that is not under way. Never waits.
    pub(super) fn deliver(&self, news: MessageMcpNotification) {
        let sender = match self.open().get(news.request_id.0.as_ref()) {
            Some(open) if open.server == news.server_id.0 => open.notifications.clone(),
            Some(_) | None => return,
        };
        if sender.try_send(news).is_err() {
            tracing::debug!("a server of the client says more than is read");
        }
    }

    /// Registers a request; `None` if too many are under way.
    fn begin(
        self: &Arc<Self>,
        server: Arc<str>,
    ) -> Option<(OpenRequestGuard, mpsc::Receiver<MessageMcpNotification>)> {
        let id = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let (news, receiver) = mpsc::channel(MAX_UNREAD_NOTIFICATIONS);
        let mut open = self.open();
        if open.len() >= REQUESTS {
            return None;
        }
        open.insert(id.clone(), OpenLinkRequest { server, notifications: news });
        drop(open);
        Some((OpenRequestGuard { id, links: Arc::clone(self) }, receiver))
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, OpenLinkRequest>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard that keeps a request in the list of those under way.
#[derive(Debug)]
struct OpenRequestGuard {
    id: String,
    links: Arc<Links>,
}

impl Drop for OpenRequestGuard {
    fn drop(&mut self) {
        self.links.open().remove(&self.id);
    }
}

/// Link to one server of the client.
struct ClientServerLink {
    id: Arc<str>,
    peer: Arc<dyn Peer>,
    links: Arc<Links>,
}

impl fmt::Debug for ClientServerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("id", &self.id).finish_non_exhaustive()
    }
}

#[async_trait]
impl McpLink for ClientServerLink {
    fn id(&self) -> &str {
        &self.id
    }

    fn request(&self, request: McpLinkRequest) -> McpLinkMessages {
        let ended = |error| Box::pin(stream::iter([McpLinkMessage::Ended(Err(error))])) as _;
        if self.links.ended.is_cancelled() {
            return ended(McpLinkError::Closed);
        }
        let Some((guard, notifications)) = self.links.begin(Arc::clone(&self.id)) else {
            let text = format!("{REQUESTS} requests to servers of the client are under way");
            return ended(McpLinkError::Broken(text));
        };
        let McpLinkRequest { method, params } = request;
        let request = MessageMcpRequest::new(Arc::clone(&self.id), guard.id.clone(), method);
        // Queued before returning, so that it follows the messages sent before.
        let answer = self.peer.send_mcp_request(request.params(params));
        Box::pin(stream::unfold(
            LinkRequestState::Pending(WaitingRequest { guard, notifications, answer }),
            next,
        ))
    }

    async fn closed(&self) {
        self.links.ended.cancelled().await;
    }
}

/// State of the message stream of a request.
enum LinkRequestState {
    Pending(WaitingRequest),
    /// The request has its outcome. Notifications that arrived before go first.
    Answered(mpsc::Receiver<MessageMcpNotification>, Result<Value, McpLinkError>),
    Ended,
}

struct WaitingRequest {
    guard: OpenRequestGuard,
    notifications: mpsc::Receiver<MessageMcpNotification>,
    answer: LinkResponse,
}

/// Returns the next message of a request: its notifications, then its outcome.
async fn next(stage: LinkRequestState) -> Option<(McpLinkMessage, LinkRequestState)> {
    let (mut news, outcome) = match stage {
        LinkRequestState::Pending(mut waiting) => {
            tokio::select! {
                biased;
                Some(news) = waiting.notifications.recv() => {
                    return Some((to_message(news), LinkRequestState::Pending(waiting)));
                }
                answer = &mut waiting.answer => {
                    let outcome = outcome(answer, &waiting.guard.links);
                    (waiting.notifications, outcome)
                }
                () = waiting.guard.links.ended.cancelled() => {
                    (waiting.notifications, Err(McpLinkError::Closed))
                }
            }
        }
        LinkRequestState::Answered(news, outcome) => (news, outcome),
        LinkRequestState::Ended => return None,
    };
    match news.try_recv() {
        Ok(notification) => {
            Some((to_message(notification), LinkRequestState::Answered(news, outcome)))
        }
        Err(_) => Some((McpLinkMessage::Ended(outcome), LinkRequestState::Ended)),
    }
}

fn to_message(news: MessageMcpNotification) -> McpLinkMessage {
    McpLinkMessage::Notification { method: news.method, params: news.params }
}

fn outcome(
    answer: Result<MessageMcpResponse, Error>,
    links: &Links,
) -> Result<Value, McpLinkError> {
    match answer {
        Ok(MessageMcpResponse::Result { result, .. }) => Ok(result),
        Ok(MessageMcpResponse::Error { error, .. }) => Err(McpLinkError::Refused {
            code: error.code,
            message: error.message,
            data: match error.data {
                MaybeUndefined::Value(data) => Some(data),
                MaybeUndefined::Null | MaybeUndefined::Undefined => None,
            },
        }),
        Ok(_) => Err(McpLinkError::Broken("the answer is invalid".to_owned())),
        // The library may notice the closed connection first.
        Err(error) if is_incoming_transport_closed(&error) || is_connection_terminated(&error) => {
            links.ended.cancel();
            Err(McpLinkError::Closed)
        }
        Err(_) if links.ended.is_cancelled() => Err(McpLinkError::Closed),
        Err(error) => Err(McpLinkError::Broken(error.message)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use agent_client_protocol::v1::schema::{
        CreateElicitationRequest, CreateElicitationResponse, RequestPermissionRequest,
        RequestPermissionResponse, SessionId,
    };
    use futures_util::{FutureExt as _, StreamExt as _};
    use serde_json::json;
    use tokio::sync::oneshot;

    use super::*;
    use crate::{server::peer::SessionProgress, view::SessionUpdateOut};

    type Answers = oneshot::Sender<Result<MessageMcpResponse, Error>>;

    /// A client that only takes requests to its servers.
    #[derive(Debug, Default)]
    struct Asked(Mutex<VecDeque<(MessageMcpRequest, Answers)>>);

    impl Asked {
        fn next(&self) -> (MessageMcpRequest, Answers) {
            self.0.lock().unwrap().pop_front().unwrap()
        }
    }

    impl Peer for Asked {
        fn wait_for_room<'a>(&'a self, _session: &'a SessionId) -> WaitedFuture<'a, ()> {
            unreachable!()
        }

        fn update(&self, _update: SessionUpdateOut) {
            unreachable!()
        }

        fn request_permission(
            &self,
            _request: RequestPermissionRequest,
        ) -> WaitedFuture<'static, Result<RequestPermissionResponse, Error>> {
            unreachable!()
        }

        fn create_elicitation(
            &self,
            _request: CreateElicitationRequest,
        ) -> WaitedFuture<'static, Result<CreateElicitationResponse, Error>> {
            unreachable!()
        }

        fn send_mcp_request(&self, request: MessageMcpRequest) -> LinkResponse {
            let (answers, answer) = oneshot::channel();
            self.0.lock().unwrap().push_back((request, answers));
            Box::pin(async move { answer.await.unwrap_or_else(|_| Err(Error::internal_error())) })
        }

        fn report_progress(&self, _session: &SessionId, _progress: SessionProgress<'_>) {
            unreachable!()
        }
    }

    struct Scene {
        links: Arc<Links>,
        client: Arc<Asked>,
        link: Arc<dyn McpLink>,
    }

    impl Scene {
        fn new() -> Self {
            let (links, client) = (Links::new(&CancellationToken::new()), Arc::<Asked>::default());
            let server = McpServerAcp::new("one", "id of one");
            let peer: Arc<dyn Peer> = Arc::clone(&client) as _;
            let config = links.server(&peer, server);
            let McpTransport::Client(server) = config.transport else { unreachable!() };
            Self { links, client, link: Arc::clone(server.link()) }
        }

        fn request(&self) -> McpLinkMessages {
            let method = "tools/call".to_owned();
            self.link.request(McpLinkRequest { method, params: None })
        }

        fn notify(&self, request: &MessageMcpRequest, number: usize) {
            let (server, id) = (request.server_id.clone(), request.request_id.clone());
            self.links.deliver(MessageMcpNotification::new(server, id, format!("news/{number}")));
        }

        fn under_way(&self) -> usize {
            self.links.open().len()
        }
    }

    fn methods(messages: &[McpLinkMessage]) -> Vec<&str> {
        let notifications = messages.iter().filter_map(|message| match message {
            McpLinkMessage::Notification { method, .. } => Some(method.as_str()),
            McpLinkMessage::Ended(_) => None,
        });
        notifications.collect()
    }

    #[tokio::test]
    async fn a_flood_of_notifications_is_bounded_and_the_outcome_is_never_lost() {
        let scene = Scene::new();
        let messages = scene.request();
        let (request, answers) = scene.client.next();
        for number in 0..10_000 {
            scene.notify(&request, number);
        }
        answers.send(Ok(MessageMcpResponse::success(json!(1)))).unwrap();
        let all: Vec<_> = messages.collect().await;
        assert_eq!(all.len(), MAX_UNREAD_NOTIFICATIONS + 1);
        assert_eq!(methods(&all).first(), Some(&"news/0"));
        assert_eq!(all.last(), Some(&McpLinkMessage::Ended(Ok(json!(1)))));
        assert_eq!(scene.under_way(), 0);
    }

    #[tokio::test]
    async fn notifications_go_to_the_request_that_they_name() {
        let scene = Scene::new();
        let (mut first, second) = (scene.request(), scene.request());
        let (of_first, _open) = scene.client.next();
        let (of_second, answers) = scene.client.next();
        scene.notify(&of_second, 2);
        let mut forged = of_second.clone();
        forged.server_id = "id of two".into();
        scene.notify(&forged, 3);
        let mut unknown = of_second.clone();
        unknown.request_id = "4711".into();
        scene.notify(&unknown, 4);
        answers.send(Ok(MessageMcpResponse::success(json!(null)))).unwrap();
        let all: Vec<_> = second.collect().await;
        assert_eq!(methods(&all), ["news/2"]);
        // The request has ended: this is ignored.
        scene.notify(&of_second, 5);
        assert!(first.next().now_or_never().is_none());
        scene.notify(&of_first, 1);
        assert_eq!(methods(&[first.next().await.unwrap()]), ["news/1"]);
    }

    #[tokio::test]
    async fn a_request_that_is_dropped_is_withdrawn() {
        let scene = Scene::new();
        let mut messages = scene.request();
        assert!(messages.next().now_or_never().is_none());
        let (_, answers) = scene.client.next();
        assert_eq!((scene.under_way(), answers.is_closed()), (1, false));
        drop(messages);
        assert_eq!((scene.under_way(), answers.is_closed()), (0, true));
    }

    #[tokio::test]
    async fn the_number_of_concurrent_requests_is_limited() {
        let scene = Scene::new();
        let mut all: Vec<_> = (0..REQUESTS).map(|_| scene.request()).collect();
        let over: Vec<_> = scene.request().collect().await;
        assert!(
            matches!(over.as_slice(), [McpLinkMessage::Ended(Err(McpLinkError::Broken(_)))]),
            "{over:?}"
        );
        assert_eq!(scene.under_way(), REQUESTS);
        all.pop();
        assert!(scene.request().next().now_or_never().is_none());
    }

    #[tokio::test]
    async fn requests_end_when_the_client_is_gone() {
        let scene = Scene::new();
        let open = scene.request();
        scene.links.ended.cancel();
        let gone = [McpLinkMessage::Ended(Err(McpLinkError::Closed))];
        assert_eq!(open.collect::<Vec<_>>().await, gone);
        assert_eq!(scene.request().collect::<Vec<_>>().await, gone);
        assert!(scene.link.closed().now_or_never().is_some());
        assert_eq!(scene.under_way(), 0);
    }
}
