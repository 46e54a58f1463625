//! Servers behind a link: each request on its own, to somebody who keeps nothing in mind.

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

use crate::support::{Servers, Session, call, context, said, tool};

/// Longer than anything here may take.
const LONG: Duration = Duration::from_secs(20);

/// A link to a script.
struct FakeLink {
    asked: mpsc::Sender<Asked>,
    closed: CancellationToken,
}

/// A request, and the way back.
struct Asked {
    request: McpLinkRequest,
    back: mpsc::Sender<McpLinkMessage>,
}

impl Asked {
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

    async fn tell(&self, method: &str, params: Value) -> bool {
        let params = params.as_object().cloned();
        self.back.send(McpLinkMessage::Told { method: method.to_owned(), params }).await.is_ok()
    }

    async fn end(&self, ended: Result<Value, McpLinkError>) {
        // Who gave it up does not listen.
        drop(self.back.send(McpLinkMessage::Ended(ended)).await);
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
        let (back, messages) = mpsc::channel(16);
        self.asked.try_send(Asked { request, back }).unwrap();
        Box::pin(stream::unfold(messages, |mut messages| async move {
            let message = messages.recv().await?;
            Some((message, messages))
        }))
    }

    async fn closed(&self) {
        self.closed.cancelled().await;
    }
}

/// The other end of a link.
struct Far {
    asked: mpsc::Receiver<Asked>,
    closed: CancellationToken,
    /// What was asked so far.
    seen: Arc<Mutex<Vec<McpLinkRequest>>>,
}

impl Far {
    async fn next(&mut self) -> Option<Asked> {
        let asked = self.asked.recv().await?;
        self.seen.lock().unwrap().push(asked.request.clone());
        Some(asked)
    }

    async fn next_of(&mut self, method: &str) -> Option<Asked> {
        loop {
            let asked = self.next().await?;
            if asked.method() == method {
                return Some(asked);
            }
        }
    }

    /// Says what it can do, and lists its tools.
    async fn offer(&mut self, tools: &Value) {
        let asked = self.next_of("server/discover").await.unwrap();
        let found = json!({
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": true}},
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
        });
        asked.end(Ok(found)).await;
        self.list(tools).await;
    }

    async fn list(&mut self, tools: &Value) {
        let asked = self.next_of("tools/list").await.unwrap();
        asked.end(Ok(json!({"tools": tools, "resultType": "complete"}))).await;
    }

    async fn call(&mut self) -> Option<Asked> {
        self.next_of("tools/call").await
    }

    async fn echo(&mut self) {
        while let Some(asked) = self.call().await {
            asked.end(Ok(said(&asked.param("arguments").to_string()))).await;
        }
    }
}

/// A session with a server behind a link.
struct Linked {
    session: Session,
    closed: CancellationToken,
    seen: Arc<Mutex<Vec<McpLinkRequest>>>,
    _far: JoinSet<()>,
}

impl Linked {
    async fn start<Fut>(script: impl FnOnce(Far) -> Fut) -> Self
    where
        Fut: Future<Output = ()> + Send + 'static,
    {
        Self::start_with(Servers::default(), script).await
    }

    async fn start_with<Fut>(mut servers: Servers, script: impl FnOnce(Far) -> Fut) -> Self
    where
        Fut: Future<Output = ()> + Send + 'static,
    {
        let (sender, asked) = mpsc::channel(256);
        let (closed, seen) = (CancellationToken::new(), Arc::default());
        let link = FakeLink { asked: sender, closed: closed.clone() };
        let transport = McpTransport::Client(ClientServer::new(Arc::new(link)));
        servers.settings.push(McpServerConfig { name: "own".to_owned(), transport }.into());
        let mut far = JoinSet::new();
        far.spawn(script(Far { asked, closed: closed.clone(), seen: Arc::clone(&seen) }));
        let session = timeout(LONG, servers.start()).await.unwrap();
        Self { session, closed, seen, _far: far }
    }

    async fn call(&self, input: Value) -> (ToolStatus, String) {
        let called = timeout(LONG, self.session.call("mcp__own__t", input)).await.unwrap();
        (called.status, called.output)
    }
}

#[tokio::test]
async fn tools_behind_a_link_are_called_like_any_other() {
    let linked = Linked::start(|mut far| async move {
        far.offer(&json!([tool("t"), tool("u")])).await;
        far.echo().await;
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
async fn each_request_says_who_asks_and_no_hands_are_shaken() {
    let linked = Linked::start(|mut far| async move {
        far.offer(&json!([tool("t")])).await;
        far.echo().await;
    })
    .await;
    linked.call(json!({})).await;
    let seen = linked.seen.lock().unwrap().clone();
    assert!(seen.iter().any(|request| request.method == "tools/call"));
    for request in seen {
        assert_ne!(request.method, "initialize");
        let meta = request.params.as_ref().and_then(|params| params.get("_meta")).unwrap();
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{request:?}");
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}), "{request:?}");
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "crow-agent", "{request:?}");
    }
}

#[tokio::test]
async fn progress_behind_a_link_is_reported_in_order() {
    let linked = Linked::start(|mut far| async move {
        far.offer(&json!([tool("t")])).await;
        let asked = far.call().await.unwrap();
        let token = asked.param("_meta")["progressToken"].clone();
        for step in 1..=2 {
            let params = json!({"progressToken": token, "progress": step, "total": 2});
            asked.tell("notifications/progress", params).await;
            asked.tell("notifications/nonsense", json!({})).await;
        }
        asked.end(Ok(said("done"))).await;
        far.echo().await;
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
async fn a_servers_no_and_a_lost_request_are_told_apart() {
    let linked = Linked::start(|mut far| async move {
        far.offer(&json!([tool("t")])).await;
        let no = |message: &str| McpLinkError::Refused {
            code: -32602,
            message: message.to_owned(),
            data: None,
        };
        for ended in [
            Err(no("no such city")),
            Err(McpLinkError::Broken("the provider was removed".to_owned())),
            Ok(json!({"resultType": "input_required", "inputRequests": {}, "requestState": "x"})),
            Ok(json!(null)),
        ] {
            far.call().await.unwrap().end(ended).await;
        }
        // Gone without an answer.
        drop(far.call().await);
        far.echo().await;
    })
    .await;
    let mut answers = Vec::new();
    for _ in 0..5 {
        let (status, text) = linked.call(json!({})).await;
        assert_eq!(status, ToolStatus::Error, "{text}");
        answers.push(text);
    }
    insta::assert_json_snapshot!(answers);
    // The server is still there.
    assert_eq!(linked.call(json!({})).await, (ToolStatus::Success, "{}".to_owned()));
}

#[tokio::test]
async fn a_call_that_is_cancelled_is_given_up_on_the_other_side() {
    let (begun, mut has_begun) = mpsc::channel(1);
    let (gone, mut is_gone) = mpsc::channel(1);
    let linked = Linked::start(|mut far| async move {
        far.offer(&json!([tool("t")])).await;
        let asked = far.call().await.unwrap();
        begun.send(()).await.unwrap();
        asked.back.closed().await;
        gone.send(()).await.unwrap();
        far.echo().await;
    })
    .await;
    let ctx = context();
    let tool = linked.session.tool("mcp__own__t");
    let (result, ()) = tokio::join!(call(tool.as_ref(), json!({}), &ctx), async {
        has_begun.recv().await.unwrap();
        ctx.cancellation.cancel();
    });
    assert_eq!(result.status, ToolStatus::Cancelled);
    timeout(LONG, is_gone.recv()).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_says_nothing_is_given_up_in_time() {
    let linked = Linked::start(|mut far| async move {
        far.offer(&json!([tool("t")])).await;
        let asked = far.call().await.unwrap();
        asked.back.closed().await;
        far.echo().await;
    })
    .await;
    let result = linked.session.call("mcp__own__t", json!({})).await;
    assert_eq!(
        result.output,
        "MCP server own: the server said nothing for 60 s, and was told to stop"
    );
}

#[tokio::test]
async fn calls_fail_at_once_when_the_client_is_gone() {
    let linked = Linked::start(|mut far| async move {
        far.offer(&json!([tool("t")])).await;
        let asked = far.call().await.unwrap();
        far.closed.cancel();
        asked.back.closed().await;
        assert!(far.next().await.is_none());
    })
    .await;
    let (_, lost) = linked.call(json!({})).await;
    assert_eq!(
        lost,
        "MCP server own: the connection to the server broke off; it is not known whether the call had effects: \
         the client that serves it is gone"
    );
    assert!(linked.closed.is_cancelled());
    for _ in 0..3 {
        let (_, later) = linked.call(json!({})).await;
        assert_eq!(later, "the MCP server own is not there: the client that serves it is gone");
    }
    let news = linked.session.news();
    assert_eq!(
        news.first().unwrap(),
        "the MCP server own has ended: the client that serves it is gone"
    );
}

#[tokio::test]
async fn a_server_behind_a_link_says_when_its_tools_change() {
    let (change, mut changes) = mpsc::channel::<()>(1);
    let linked = Linked::start(|mut far| async move {
        far.offer(&json!([tool("t")])).await;
        let listening = far.next_of("subscriptions/listen").await.unwrap();
        changes.recv().await.unwrap();
        listening.tell("notifications/tools/list_changed", json!({})).await;
        far.list(&json!([tool("t"), tool("new")])).await;
        far.echo().await;
    })
    .await;
    let revision = linked.session.revision();
    change.send(()).await.unwrap();
    linked.session.changed(revision).await;
    assert_eq!(linked.session.names(), ["mcp__own__new", "mcp__own__t"]);
}

#[tokio::test]
async fn a_link_that_floods_with_news_still_answers() {
    let linked = Linked::start(|mut far| async move {
        far.offer(&json!([tool("t")])).await;
        let asked = far.call().await.unwrap();
        for _ in 0..2_000 {
            asked.tell("notifications/message", json!({"level": "info", "data": "x"})).await;
        }
        asked.end(Ok(said("fine"))).await;
        far.echo().await;
    })
    .await;
    assert_eq!(linked.call(json!({})).await.1, "fine");
}

#[tokio::test]
async fn a_server_of_another_time_is_told_of_and_takes_nothing_from_the_others() {
    let servers = Servers::of("other", |_, mut io| async move {
        io.offer(&json!([tool("t")])).await;
        io.echo().await;
    });
    let linked = Linked::start_with(servers, |mut far| async move {
        let asked = far.next().await.unwrap();
        assert_eq!(asked.method(), "server/discover");
        let data = Some(json!({"supported": ["2025-11-25"]}));
        let (code, message) = (-32022, "Unsupported protocol version".to_owned());
        asked.end(Err(McpLinkError::Refused { code, message, data })).await;
        while far.next().await.is_some() {}
    })
    .await;
    assert_eq!(linked.session.names(), ["mcp__other__t"]);
    let news = linked.session.news();
    assert!(news[0].starts_with("the MCP server own is not there: "), "{news:?}");
    assert!(news[0].contains("2025-11-25"), "{news:?}");
}

#[tokio::test]
async fn what_a_server_behind_a_link_lists_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let servers = Servers::default().cached_in(folder.path());
    let linked = Linked::start_with(servers, |mut far| async move {
        far.offer(&json!([tool("t")])).await;
        far.echo().await;
    })
    .await;
    linked.call(json!({})).await;
    linked.session.tools.close().await;
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
