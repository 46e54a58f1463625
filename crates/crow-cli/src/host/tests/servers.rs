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

/// A server behind a client, with a tool that says what the client is called.
#[derive(Debug, Default)]
struct Client {
    name: &'static str,
    gone: CancellationToken,
    asked: Mutex<Vec<String>>,
}

impl Client {
    fn named(name: &'static str) -> Arc<Self> {
        Arc::new(Self { name, ..Self::default() })
    }

    fn answer(&self, method: &str) -> Result<Value, McpLinkError> {
        if self.gone.is_cancelled() {
            return Err(McpLinkError::Closed);
        }
        self.asked.lock().unwrap().push(method.to_owned());
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

/// What a client says that serves a server itself.
fn of(client: &Arc<Client>) -> SessionSetup {
    let transport = McpTransport::Client(ClientServer::new(Arc::clone(client) as _));
    let server = McpServerConfig { name: "own".to_owned(), transport };
    SessionSetup { mcp_servers: vec![server], ..SessionSetup::default() }
}

/// Lets the model call the tool, and returns what came of it.
async fn asked(scene: &Scene, handle: &AgentHandle, id: &str) -> String {
    scene.model.push(reply([call(id, "mcp__own__who", json!({}))]));
    scene.model.push(reply([text("So be it.")]));
    run(handle, "who is it?").await;
    let seen = scene.model.requests().pop().unwrap();
    seen.outline().pop().unwrap()
}

#[tokio::test]
async fn the_servers_of_the_client_that_opened_a_session_last_are_those_that_it_has() {
    let scene = Scene::new();
    let (first, second) = (Client::named("first"), Client::named("second"));
    let setup = SessionSetup { permissions: Some(PermissionMode::FullAuto), ..of(&first) };
    let handle = scene.create(setup).await;
    let id = handle.session_id();
    let said = asked(&scene, &handle, "c1").await;
    assert!(said.contains("first"), "{said}");
    // Its connection breaks off.
    first.gone.cancel();
    let said = asked(&scene, &handle, "c2").await;
    assert!(said.contains("the client that serves it is gone"), "{said}");
    // Another one shows the session.
    scene.host.open(id, of(&second)).await.unwrap();
    let said = asked(&scene, &handle, "c3").await;
    assert!(said.contains("second"), "{said}");
    assert!(scene.model.requests().pop().unwrap().tools.contains(&"mcp__own__who".to_owned()));
    // The same words again change nothing.
    let connected = second.asked.lock().unwrap().len();
    scene.host.open(id, of(&second)).await.unwrap();
    asked(&scene, &handle, "c4").await;
    assert_eq!(second.asked.lock().unwrap().len(), connected + 1);
    // One without servers.
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
    // In a session that begins, and in one that goes on.
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
