use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use crow_core::{
    capability::{McpLink, McpLinkError, McpLinkMessage, McpLinkMessages, McpLinkRequest},
    mcp::{ClientServer, McpServerConfig, McpTransport},
    permission::PermissionMode,
};
use crow_runtime::{AgentHandle, AgentHost as _, SessionSetup};
use crow_testkit::scripted::{call, reply, text};
use futures_util::stream;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::scene::{Scene, run};

/// An MCP server behind a client, with one tool that returns the name of the client.
#[derive(Debug, Default)]
struct Client {
    name: &'static str,
    gone: CancellationToken,
    methods: Mutex<Vec<String>>,
}

impl Client {
    fn named(name: &'static str) -> Arc<Self> {
        Arc::new(Self { name, ..Self::default() })
    }

    fn answer(&self, method: &str) -> Result<Value, McpLinkError> {
        if self.gone.is_cancelled() {
            return Err(McpLinkError::Closed);
        }
        self.methods.lock().unwrap().push(method.to_owned());
        let tool = json!({"name": "who", "inputSchema": {"type": "object"}});
        Ok(match method {
            "server/discover" => json!({
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
                "resultType": "complete",
                "ttlMs": 0,
                "cacheScope": "private",
            }),
            "tools/list" => json!({"tools": [tool], "resultType": "complete"}),
            _ => json!({"content": [{"type": "text", "text": self.name}]}),
        })
    }
}

#[async_trait]
impl McpLink for Client {
    fn id(&self) -> &str {
        self.name
    }

    fn request(&self, request: McpLinkRequest) -> McpLinkMessages {
        let answer = self.answer(&request.method);
        Box::pin(stream::iter([McpLinkMessage::Ended(answer)]))
    }

    async fn closed(&self) {
        self.gone.cancelled().await;
    }
}

/// Returns the setup of a client that serves MCP itself.
fn setup_with_server(client: &Arc<Client>) -> SessionSetup {
    let transport = McpTransport::Client(ClientServer::new(Arc::clone(client) as _));
    let server = McpServerConfig { name: "own".to_owned(), transport };
    SessionSetup { mcp_servers: vec![server], ..SessionSetup::default() }
}

/// Makes the model call the tool, and returns the result as the model sees it.
async fn call_tool(scene: &Scene, handle: &AgentHandle, id: &str) -> String {
    scene.model.push(reply([call(id, "mcp__own__who", json!({}))]));
    scene.model.push(reply([text("So be it.")]));
    run(handle, "who is it?").await;
    let request = scene.model.requests().pop().unwrap();
    request.outline().pop().unwrap()
}

#[tokio::test]
async fn a_session_uses_the_servers_of_the_client_that_opened_it_last() {
    let scene = Scene::new();
    let (first, second) = (Client::named("first"), Client::named("second"));
    let setup =
        SessionSetup { permissions: Some(PermissionMode::FullAuto), ..setup_with_server(&first) };
    let handle = scene.create(setup).await;
    let id = handle.session_id();
    let result = call_tool(&scene, &handle, "c1").await;
    assert!(result.contains("first"), "{result}");
    // The connection of the first client breaks.
    first.gone.cancel();
    let result = call_tool(&scene, &handle, "c2").await;
    assert!(result.contains("the client that provides it has disconnected"), "{result}");
    // A second client opens the session.
    scene.host.open(id, setup_with_server(&second)).await.unwrap();
    let result = call_tool(&scene, &handle, "c3").await;
    assert!(result.contains("second"), "{result}");
    assert!(scene.model.requests().pop().unwrap().tools.contains(&"mcp__own__who".to_owned()));
    // Opening it again with the same servers changes nothing.
    let connected = second.methods.lock().unwrap().len();
    scene.host.open(id, setup_with_server(&second)).await.unwrap();
    call_tool(&scene, &handle, "c4").await;
    assert_eq!(second.methods.lock().unwrap().len(), connected + 1);
    // A client without servers opens it.
    scene.host.open(id, SessionSetup::default()).await.unwrap();
    scene.model.push(reply([text("Nothing.")]));
    run(&handle, "and now?").await;
    assert!(!scene.model.requests().pop().unwrap().tools.contains(&"mcp__own__who".to_owned()));
    scene.model.assert_finished();
}

#[tokio::test]
async fn what_a_client_hands_over_to_reach_a_server_is_kept_out_of_the_log() {
    const KEY: &str = "ghp_canary0123456789";
    let scene = Scene::new();
    let transport = McpTransport::Http {
        url: "http://127.0.0.1:9/mcp".to_owned(),
        headers: [("authorization".to_owned(), format!("Bearer {KEY}"))].into(),
    };
    let server = McpServerConfig { name: "web".to_owned(), transport };
    let setup = SessionSetup { mcp_servers: vec![server], ..SessionSetup::default() };
    // In a new session, and in one that is open already.
    for opened_later in [false, true] {
        let handle = if opened_later {
            let handle = scene.create(SessionSetup::default()).await;
            scene.host.open(handle.session_id(), setup.clone()).await.unwrap()
        } else {
            scene.create(setup.clone()).await
        };
        scene.model.push(reply([text(&format!("The key is {KEY}."))]));
        run(&handle, &format!("what is {KEY}?")).await;
        let id = handle.session_id().clone();
        scene.host.close(&id).await.unwrap();
        let stored = scene.host.runtime().config().store.read(&id).unwrap();
        let stored = serde_json::to_string(&stored.events).unwrap();
        assert!(stored.contains("The key is [redacted by crow]."), "{stored}");
        assert!(!stored.contains(KEY), "{stored}");
    }
}
