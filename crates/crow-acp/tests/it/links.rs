//! MCP servers that a client serves itself, at the level of messages.

use crow_testkit::scripted::{Play, call, reply, text};
use serde_json::{Value, json};

use crate::client::{Client, Product};

/// A client that serves two MCP servers, and its session.
struct ServingClient {
    product: Product,
    client: Client,
    session: String,
}

impl ServingClient {
    /// Creates a session in which the model makes `calls` calls of the first server's tool, one after the other.
    async fn with_calls(calls: usize) -> Self {
        Self::with_version(1, calls).await
    }

    /// Like [`with_calls`](Self::with_calls), in a version of the protocol.
    async fn with_version(version: u8, calls: usize) -> Self {
        let call_of = |number| reply([call(&format!("c{number}"), "mcp__one__t", json!({}))]);
        let end = [reply([text("Done.")])];
        let plays: Vec<Play> = (0..calls).map(call_of).chain(end).collect();
        let product = Product::new(plays);
        let mut client = product.connect_with(1 << 20);
        let info = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": version, "info": info, "capabilities": {} });
        client.request("initialize", hello).await;
        let params = json!({ "cwd": product.cwd(), "mcpServers": [server("one"), server("two")] });
        let made = client.request("session/new", params).await;
        let session = made["result"]["sessionId"].as_str().unwrap().to_owned();
        Self { product, client, session }
    }

    /// Sends a prompt, answers the setup requests of both servers, and returns the id of the prompt.
    async fn begin(&mut self) -> u64 {
        let prompt = self.client.begin_prompt(&self.session, "go").await;
        for _ in 0..4 {
            answer_setup_request(&mut self.client).await;
        }
        prompt
    }

    /// Waits for a call of the tool of the first server.
    async fn await_call(&mut self) -> Value {
        let request = self.client.await_request("mcp/message").await;
        assert_eq!(request["params"]["method"], "tools/call", "{request}");
        assert_eq!(request["params"]["serverId"], "id of one", "{request}");
        request
    }

    /// Sends a notification about a call that is under way.
    async fn notify_of(&mut self, request: &Value, method: &str, params: Value) {
        let params_of_call = &request["params"];
        let notification = json!({
            "serverId": params_of_call["serverId"], "requestId": params_of_call["requestId"], "method": method, "params": params,
        });
        self.client.notify("mcp/message", notification).await;
    }

    /// Returns the outline of the model's last request, which has the results of the calls.
    fn results(&self) -> String {
        self.product.model.assert_finished();
        self.product.model.requests().pop().unwrap().outline().join("\n")
    }
}

fn server(name: &str) -> Value {
    json!({ "type": "acp", "name": name, "serverId": format!("id of {name}") })
}

/// Returns the result of a request that a server with one tool gets before its first call; `None` for other methods.
pub(crate) fn setup_result(method: &str) -> Option<Value> {
    match method {
        "server/discover" => Some(json!({
            "supportedVersions": ["2025-11-25", "2026-07-28"],
            "capabilities": { "tools": {} },
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
        })),
        "tools/list" => Some(json!({
            "tools": [{ "name": "t", "inputSchema": { "type": "object" } }],
            "resultType": "complete",
        })),
        _ => None,
    }
}

/// Answers a request that a server gets before its first call.
async fn answer_setup_request(client: &mut Client) {
    let request = client.await_request("mcp/message").await;
    let method = request["params"]["method"].as_str().unwrap();
    let result = setup_result(method).unwrap_or_else(|| panic!("{method}"));
    client.respond(&request["id"], json!({ "result": result })).await;
}

fn text_result(text: &str) -> Value {
    json!({ "result": { "content": [{ "type": "text", "text": text }], "resultType": "complete" } })
}

#[tokio::test]
async fn initialize_announces_that_clients_may_serve_tools() {
    let product = Product::new([]);
    let mut client = product.connect_with(1 << 16);
    let hello = client.initialize(json!({})).await;
    let servers = &hello["result"]["agentCapabilities"]["mcpCapabilities"];
    assert_eq!(*servers, json!({ "http": true, "sse": false, "acp": true }));
}

#[tokio::test]
async fn progress_of_a_tool_that_the_client_serves_is_shown_while_it_works() {
    let mut fixture = ServingClient::with_calls(1).await;
    let prompt = fixture.begin().await;
    let request = fixture.await_call().await;
    let token = request["params"]["params"]["_meta"]["progressToken"].clone();
    let progress = json!({ "progressToken": token, "progress": 1, "total": 2, "message": "half" });
    fixture.notify_of(&request, "notifications/progress", progress).await;
    let client = &mut fixture.client;
    client.until(|message| message.to_string().contains("1/2 half")).await;
    client.respond(&request["id"], text_result("all of it")).await;
    let answer = client.answer(prompt).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(fixture.results().contains("all of it"));
}

#[tokio::test]
async fn a_client_of_version_2_serves_tools_as_well() {
    let mut fixture = ServingClient::with_version(2, 1).await;
    fixture.begin().await;
    let request = fixture.await_call().await;
    let token = request["params"]["params"]["_meta"]["progressToken"].clone();
    let progress = json!({ "progressToken": token, "progress": 1, "total": 2 });
    fixture.notify_of(&request, "notifications/progress", progress).await;
    let client = &mut fixture.client;
    client.until(|message| message.to_string().contains("1/2")).await;
    client.respond(&request["id"], text_result("in other words")).await;
    client.until(|message| message["params"]["update"]["stopReason"] == "end_turn").await;
    assert!(fixture.results().contains("in other words"));
}

#[tokio::test]
async fn errors_of_a_server_and_of_its_client_are_reported_differently() {
    let mut fixture = ServingClient::with_calls(3).await;
    let prompt = fixture.begin().await;
    let request = fixture.await_call().await;
    let error = json!({ "error": { "code": -32602, "message": "no such city", "data": null } });
    fixture.client.respond(&request["id"], error).await;
    let request = fixture.await_call().await;
    let error = json!({ "code": -33001, "message": "the provider was removed" });
    let line = json!({ "jsonrpc": "2.0", "id": request["id"], "error": error });
    fixture.client.send_line(&line.to_string()).await;
    let request = fixture.await_call().await;
    fixture.client.respond(&request["id"], json!({ "neither": 1 })).await;
    fixture.client.answer(prompt).await;
    let results = fixture.results();
    for text in [
        "the server refused the call: no such city",
        "no answer came from the client that provides it; it is unclear whether the call had effects: the provider was removed",
    ] {
        assert!(results.contains(text), "{results}");
    }
    assert_eq!(results.matches("no answer came").count(), 2, "{results}");
}

#[tokio::test]
async fn a_cancelled_call_is_withdrawn_from_the_client() {
    let mut fixture = ServingClient::with_calls(1).await;
    let prompt = fixture.begin().await;
    let request = fixture.await_call().await;
    fixture.client.notify("session/cancel", json!({ "sessionId": fixture.session })).await;
    let withdrawn = fixture.client.until(|message| message["method"] == "$/cancel_request").await;
    assert_eq!(withdrawn["params"]["requestId"], request["id"]);
    let answer = fixture.client.answer(prompt).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
}

#[tokio::test]
async fn a_call_fails_at_once_when_its_client_disconnects_and_the_session_continues() {
    let mut fixture = ServingClient::with_calls(2).await;
    // Another client opens the session, and sends the prompt.
    let mut other = fixture.product.connect().await;
    let params =
        json!({ "sessionId": fixture.session, "cwd": fixture.product.cwd(), "mcpServers": [] });
    other.request("session/resume", params).await;
    let prompt = other.begin_prompt(&fixture.session, "go").await;
    for _ in 0..4 {
        answer_setup_request(&mut fixture.client).await;
    }
    fixture.await_call().await;
    let ServingClient { product, client, session } = fixture;
    client.disconnect().await;
    let answer = other.answer(prompt).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let requests = product.model.requests();
    let outline = requests.last().unwrap().outline().join("\n");
    assert!(
        outline.contains(
            "it is unclear whether the call had effects: the client that provides it has disconnected"
        ),
        "{outline}"
    );
    assert!(
        outline.contains(
            "the MCP server one is unavailable: the client that provides it has disconnected"
        ),
        "{outline}"
    );
    product.model.push(reply([text("Still here.")]));
    let answer = other.prompt(&session, "and now?").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
}

#[tokio::test]
async fn two_servers_with_one_id_are_refused() {
    let product = Product::new([]);
    let mut client = product.connect().await;
    let mut twin = server("two");
    twin["serverId"] = "id of one".into();
    let params = json!({ "cwd": product.cwd(), "mcpServers": [server("one"), twin] });
    let refused = client.request("session/new", params).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert_eq!(refused["error"]["message"], "mcpServers: two servers have the id id of one");
    assert_eq!(product.host.requests(), [""; 0]);
}

#[tokio::test]
async fn notifications_of_unknown_requests_are_ignored() {
    let mut fixture = ServingClient::with_calls(1).await;
    let prompt = fixture.begin().await;
    let request = fixture.await_call().await;
    let token = request["params"]["params"]["_meta"]["progressToken"].clone();
    let progress = json!({ "progressToken": token, "progress": 1, "message": "forged" });
    for (server, request) in [
        (json!("id of one"), json!("4711")),
        (json!("id of two"), request["params"]["requestId"].clone()),
        (json!("nobody"), json!("")),
    ] {
        let params = json!({ "serverId": server, "requestId": request, "method": "notifications/progress", "params": progress });
        fixture.client.notify("mcp/message", params).await;
    }
    fixture.client.notify("mcp/message", json!({ "serverId": 1 })).await;
    fixture.client.respond(&request["id"], text_result("fine")).await;
    fixture.client.answer(prompt).await;
    assert!(fixture.results().contains("fine"));
    let updates = fixture.client.updates();
    assert!(!json!(updates).to_string().contains("forged"), "{updates:?}");
}

#[tokio::test]
async fn a_call_is_answered_after_a_flood_of_notifications() {
    let mut fixture = ServingClient::with_calls(1).await;
    let prompt = fixture.begin().await;
    let request = fixture.await_call().await;
    for _ in 0..5_000 {
        fixture
            .notify_of(&request, "notifications/message", json!({ "level": "info", "data": "x" }))
            .await;
    }
    fixture.client.respond(&request["id"], text_result("at last")).await;
    fixture.client.answer(prompt).await;
    assert!(fixture.results().contains("at last"));
}

#[tokio::test]
async fn a_prompt_that_waits_for_servers_names_them() {
    let mut fixture = ServingClient::with_calls(0).await;
    // The servers do not answer.
    let prompt = fixture.client.begin_prompt(&fixture.session, "go").await;
    let update = fixture
        .client
        .until(|message| {
            let text = message["params"]["update"]["content"]["text"].as_str();
            text.is_some_and(|text| text.contains("MCP servers: one, two"))
        })
        .await;
    assert_eq!(update["method"], "session/update", "{update}");
    fixture.client.notify("session/cancel", json!({ "sessionId": fixture.session })).await;
    let end = fixture.client.answer(prompt).await;
    assert_eq!(end["result"]["stopReason"], "cancelled", "{end}");
    assert!(fixture.product.model.requests().is_empty());
}
