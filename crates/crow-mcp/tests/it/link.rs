//! Servers behind a link: the protocol over links is stateless, so every request stands alone.

use std::{
    fmt,
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use crow_core::{
    capability::{McpLink, McpLinkError, McpLinkMessage, McpLinkMessages, McpLinkRequest},
    mcp::{ClientServer, McpServerConfig, McpTransport},
    tool::{Effects, Progress, ToolSource as _, ToolStatus},
};
use crow_mcp::ServerState;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::support::{Servers, Session, call, context, text_result, tool};

/// Time limit of every step.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// A link to a scripted server.
struct FakeLink {
    requests: mpsc::Sender<ReceivedRequest>,
    closed: CancellationToken,
}

/// A request, and the channel for its messages.
struct ReceivedRequest {
    request: McpLinkRequest,
    reply_to: mpsc::Sender<McpLinkMessage>,
}

impl ReceivedRequest {
    fn method(&self) -> &str {
        &self.request.method
    }

    fn param(&self, name: &str) -> Value {
        self.request
            .params
            .as_ref()
            .and_then(|params| params.get(name))
            .cloned()
            .unwrap_or_default()
    }

    async fn notify(&self, method: &str, params: Value) -> bool {
        let params = params.as_object().cloned();
        self.reply_to
            .send(McpLinkMessage::Notification { method: method.to_owned(), params })
            .await
            .is_ok()
    }

    async fn end(&self, outcome: Result<Value, McpLinkError>) {
        // Fails if the caller has dropped the request.
        drop(self.reply_to.send(McpLinkMessage::Ended(outcome)).await);
    }
}

impl fmt::Debug for FakeLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FakeLink")
    }
}

#[async_trait]
impl McpLink for FakeLink {
    fn id(&self) -> &'static str {
        "own"
    }

    fn request(&self, request: McpLinkRequest) -> McpLinkMessages {
        let (reply_to, messages) = mpsc::channel(16);
        self.requests.try_send(ReceivedRequest { request, reply_to }).unwrap();
        Box::pin(stream::unfold(messages, |mut messages| async move {
            let message = messages.recv().await?;
            Some((message, messages))
        }))
    }

    async fn closed(&self) {
        self.closed.cancelled().await;
    }
}

/// The scripted server at the other end of a link.
struct FakeServer {
    requests: mpsc::Receiver<ReceivedRequest>,
    closed: CancellationToken,
    /// All requests so far.
    received: Arc<Mutex<Vec<McpLinkRequest>>>,
}

impl FakeServer {
    async fn next(&mut self) -> Option<ReceivedRequest> {
        let request = self.requests.recv().await?;
        self.received.lock().unwrap().push(request.request.clone());
        Some(request)
    }

    async fn next_of(&mut self, method: &str) -> Option<ReceivedRequest> {
        loop {
            let request = self.next().await?;
            if request.method() == method {
                return Some(request);
            }
        }
    }

    /// Answers the discovery and the first request for tools.
    async fn offer(&mut self, tools: &Value) {
        let request = self.next_of("server/discover").await.unwrap();
        let discovery = json!({
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": true}},
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
        });
        request.end(Ok(discovery)).await;
        self.list(tools).await;
    }

    async fn list(&mut self, tools: &Value) {
        let request = self.next_of("tools/list").await.unwrap();
        request.end(Ok(json!({"tools": tools, "resultType": "complete"}))).await;
    }

    async fn call(&mut self) -> Option<ReceivedRequest> {
        self.next_of("tools/call").await
    }

    async fn echo(&mut self) {
        while let Some(request) = self.call().await {
            request.end(Ok(text_result(&request.param("arguments").to_string()))).await;
        }
    }
}

/// A session with a server behind a link.
struct LinkedSession {
    session: Session,
    closed: CancellationToken,
    received: Arc<Mutex<Vec<McpLinkRequest>>>,
    _server_task: JoinSet<()>,
}

impl LinkedSession {
    async fn start<Fut>(script: impl FnOnce(FakeServer) -> Fut) -> Self
    where
        Fut: Future<Output = ()> + Send + 'static,
    {
        Self::start_with(Servers::default(), script).await
    }

    async fn start_with<Fut>(mut servers: Servers, script: impl FnOnce(FakeServer) -> Fut) -> Self
    where
        Fut: Future<Output = ()> + Send + 'static,
    {
        let (sender, requests) = mpsc::channel(256);
        let (closed, received) = (CancellationToken::new(), Arc::default());
        let link = FakeLink { requests: sender, closed: closed.clone() };
        let transport = McpTransport::Client(ClientServer::new(Arc::new(link)));
        servers.settings.push(McpServerConfig { name: "own".to_owned(), transport }.into());
        let mut server_task = JoinSet::new();
        server_task.spawn(script(FakeServer {
            requests,
            closed: closed.clone(),
            received: Arc::clone(&received),
        }));
        let session = timeout(TIME_LIMIT, servers.start()).await.unwrap();
        Self { session, closed, received, _server_task: server_task }
    }

    async fn call(&self, input: Value) -> (ToolStatus, String) {
        let called = timeout(TIME_LIMIT, self.session.call("mcp__own__t", input)).await.unwrap();
        (called.status, called.output)
    }
}

#[tokio::test]
async fn tools_behind_a_link_are_called_like_any_other() {
    let linked = LinkedSession::start(|mut server| async move {
        server.offer(&json!([tool("t"), tool("u")])).await;
        server.echo().await;
    })
    .await;
    assert_eq!(linked.session.names(), ["mcp__own__t", "mcp__own__u"]);
    assert_eq!(linked.call(json!({"x": 1})).await, (ToolStatus::Success, r#"{"x":1}"#.to_owned()));
    assert_eq!(linked.session.news(), [""; 0]);
    let state = linked.session.tools.servers().remove(0).state;
    assert_eq!(state, ServerState::Connected);
    let plan = linked.session.tool("mcp__own__t").plan(&json!({}), &context()).await.unwrap();
    assert_eq!(plan.effects, Effects::Unknown);
}

#[tokio::test]
async fn every_request_identifies_the_client_and_there_is_no_handshake() {
    let linked = LinkedSession::start(|mut server| async move {
        server.offer(&json!([tool("t")])).await;
        server.echo().await;
    })
    .await;
    linked.call(json!({})).await;
    let received = linked.received.lock().unwrap().clone();
    assert!(received.iter().any(|request| request.method == "tools/call"));
    for request in received {
        assert_ne!(request.method, "initialize");
        let meta = request.params.as_ref().and_then(|params| params.get("_meta")).unwrap();
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{request:?}");
        let capabilities = &meta["io.modelcontextprotocol/clientCapabilities"];
        let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        assert_eq!(*capabilities, tasks, "{request:?}");
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "crow-agent", "{request:?}");
    }
}

#[tokio::test]
async fn progress_behind_a_link_is_reported_in_order() {
    let linked = LinkedSession::start(|mut server| async move {
        server.offer(&json!([tool("t")])).await;
        let request = server.call().await.unwrap();
        let token = request.param("_meta")["progressToken"].clone();
        for step in 1..=2 {
            let params = json!({"progressToken": token, "progress": step, "total": 2});
            request.notify("notifications/progress", params).await;
            request.notify("notifications/nonsense", json!({})).await;
        }
        request.end(Ok(text_result("done"))).await;
        server.echo().await;
    })
    .await;
    let reports = Arc::new(Mutex::new(Vec::new()));
    let (mut ctx, sink) = (context(), Arc::clone(&reports));
    ctx.progress = Progress::new(move |report| sink.lock().unwrap().push(report));
    let result = call(linked.session.tool("mcp__own__t").as_ref(), json!({}), &ctx).await;
    assert_eq!(result.output, "done");
    assert_eq!(*reports.lock().unwrap(), ["1/2\n", "2/2\n"]);
}

#[tokio::test]
async fn errors_of_a_server_and_lost_requests_are_reported_differently() {
    let linked = LinkedSession::start(|mut server| async move {
        server.offer(&json!([tool("t")])).await;
        let refusal = |message: &str| McpLinkError::Refused {
            code: -32602,
            message: message.to_owned(),
            data: None,
        };
        for outcome in [
            Err(refusal("no such city")),
            Err(McpLinkError::Broken("the provider was removed".to_owned())),
            Ok(json!({"resultType": "input_required", "inputRequests": {}})),
            Ok(json!(null)),
        ] {
            server.call().await.unwrap().end(outcome).await;
        }
        // The request is dropped without an answer.
        drop(server.call().await);
        server.echo().await;
    })
    .await;
    let mut answers = Vec::new();
    for _ in 0..5 {
        let (status, text) = linked.call(json!({})).await;
        assert_eq!(status, ToolStatus::Error, "{text}");
        answers.push(text);
    }
    insta::assert_json_snapshot!(answers);
    // The server is still connected.
    assert_eq!(linked.call(json!({})).await, (ToolStatus::Success, "{}".to_owned()));
}

#[tokio::test]
async fn a_cancelled_call_is_withdrawn_from_the_link() {
    let (begun, mut has_begun) = mpsc::channel(1);
    let (gone, mut is_gone) = mpsc::channel(1);
    let linked = LinkedSession::start(|mut server| async move {
        server.offer(&json!([tool("t")])).await;
        let request = server.call().await.unwrap();
        begun.send(()).await.unwrap();
        request.reply_to.closed().await;
        gone.send(()).await.unwrap();
        server.echo().await;
    })
    .await;
    let ctx = context();
    let tool = linked.session.tool("mcp__own__t");
    let (result, ()) = tokio::join!(call(tool.as_ref(), json!({}), &ctx), async {
        has_begun.recv().await.unwrap();
        ctx.cancellation.cancel();
    });
    assert_eq!(result.status, ToolStatus::Cancelled);
    timeout(TIME_LIMIT, is_gone.recv()).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_silent_call_over_a_link_times_out() {
    let linked = LinkedSession::start(|mut server| async move {
        server.offer(&json!([tool("t")])).await;
        let request = server.call().await.unwrap();
        request.reply_to.closed().await;
        server.echo().await;
    })
    .await;
    let result = linked.session.call("mcp__own__t", json!({})).await;
    assert_eq!(
        result.output,
        "MCP server own: the server sent nothing for 60 s, so the call was cancelled"
    );
}

#[tokio::test]
async fn calls_fail_at_once_when_the_client_is_gone() {
    let linked = LinkedSession::start(|mut server| async move {
        server.offer(&json!([tool("t")])).await;
        let request = server.call().await.unwrap();
        server.closed.cancel();
        request.reply_to.closed().await;
        assert!(server.next().await.is_none());
    })
    .await;
    let (_, lost) = linked.call(json!({})).await;
    assert_eq!(
        lost,
        "MCP server own: the connection to the server broke off; it is unclear whether the call had effects: \
         the client that provides it has disconnected"
    );
    assert!(linked.closed.is_cancelled());
    for _ in 0..3 {
        let (_, later) = linked.call(json!({})).await;
        assert_eq!(
            later,
            "the MCP server own is unavailable: the client that provides it has disconnected"
        );
    }
    let news = linked.session.news();
    assert_eq!(
        news.first().unwrap(),
        "the MCP server own has ended: the client that provides it has disconnected"
    );
}

#[tokio::test]
async fn changed_tools_behind_a_link_are_noticed() {
    let (change, mut changes) = mpsc::channel::<()>(1);
    let linked = LinkedSession::start(|mut server| async move {
        server.offer(&json!([tool("t")])).await;
        let listening = server.next_of("subscriptions/listen").await.unwrap();
        changes.recv().await.unwrap();
        listening.notify("notifications/tools/list_changed", json!({})).await;
        server.list(&json!([tool("t"), tool("new")])).await;
        server.echo().await;
    })
    .await;
    let revision = linked.session.revision();
    change.send(()).await.unwrap();
    linked.session.wait_for_change(revision).await;
    assert_eq!(linked.session.names(), ["mcp__own__new", "mcp__own__t"]);
}

#[tokio::test]
async fn a_call_over_a_link_is_answered_after_a_flood_of_notifications() {
    let linked = LinkedSession::start(|mut server| async move {
        server.offer(&json!([tool("t")])).await;
        let request = server.call().await.unwrap();
        for _ in 0..2_000 {
            request.notify("notifications/message", json!({"level": "info", "data": "x"})).await;
        }
        request.end(Ok(text_result("fine"))).await;
        server.echo().await;
    })
    .await;
    assert_eq!(linked.call(json!({})).await.1, "fine");
}

#[tokio::test]
async fn an_oversized_answer_over_a_link_fails_the_call() {
    let linked = LinkedSession::start(|mut server| async move {
        server.offer(&json!([tool("t")])).await;
        server.call().await.unwrap().end(Ok(text_result(&"x".repeat(17 << 20)))).await;
        server.echo().await;
    })
    .await;
    let (status, text) = linked.call(json!({})).await;
    assert_eq!(status, ToolStatus::Error);
    assert!(
        text.ends_with("it is unclear whether the call had effects: it has more than 16 MiB"),
        "{text}"
    );
    assert_eq!(linked.call(json!({})).await.1, "{}");
}

#[tokio::test]
async fn a_server_with_an_unsupported_version_is_reported_and_does_not_affect_the_others() {
    let servers = Servers::of("other", |_, mut io| async move {
        io.offer(&json!([tool("t")])).await;
        io.echo().await;
    });
    let linked = LinkedSession::start_with(servers, |mut server| async move {
        let request = server.next().await.unwrap();
        assert_eq!(request.method(), "server/discover");
        let data = Some(json!({"supported": ["2025-11-25"]}));
        let (code, message) = (-32022, "Unsupported protocol version".to_owned());
        request.end(Err(McpLinkError::Refused { code, message, data })).await;
        while server.next().await.is_some() {}
    })
    .await;
    assert_eq!(linked.session.names(), ["mcp__other__t"]);
    let news = linked.session.news();
    assert!(news[0].starts_with("the MCP server own is unavailable: "), "{news:?}");
    assert!(news[0].contains("2025-11-25"), "{news:?}");
}

#[tokio::test]
async fn tools_behind_a_link_are_not_cached() {
    let folder = tempfile::tempdir().unwrap();
    let servers = Servers::default().cached_in(folder.path());
    let linked = LinkedSession::start_with(servers, |mut server| async move {
        server.offer(&json!([tool("t")])).await;
        server.echo().await;
    })
    .await;
    linked.call(json!({})).await;
    linked.session.tools.close().await;
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
