//! Servers of tools that a client serves itself, line by line.

use crow_testkit::scripted::{Play, call, reply, text};
use serde_json::{Value, json};

use crate::client::{Client, Product};

/// A client that serves two servers.
struct Serving {
    product: Product,
    client: Client,
    session: String,
}

impl Serving {
    /// Begins a session, in which the model calls tools of the first server one after the other.
    async fn of(calls: usize) -> Self {
        Self::speaking(1, calls).await
    }

    /// The same in that version of the protocol.
    async fn speaking(version: u8, calls: usize) -> Self {
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

    /// Says something, and returns the number of the prompt when both servers have said what they can do.
    async fn begin(&mut self) -> u64 {
        let prompt = self.client.begin_prompt(&self.session, "go").await;
        for _ in 0..4 {
            offer(&mut self.client).await;
        }
        prompt
    }

    /// Waits for a call of the tool of the first server.
    async fn call(&mut self) -> Value {
        let asked = self.client.asked("mcp/message").await;
        assert_eq!(asked["params"]["method"], "tools/call", "{asked}");
        assert_eq!(asked["params"]["serverId"], "id of one", "{asked}");
        asked
    }

    /// Says something of a call while it is under way.
    async fn tell(&mut self, asked: &Value, method: &str, params: Value) {
        let of = &asked["params"];
        let news = json!({
            "serverId": of["serverId"], "requestId": of["requestId"], "method": method, "params": params,
        });
        self.client.notify("mcp/message", news).await;
    }

    /// Returns what the model was told of the calls.
    fn results(&self) -> String {
        self.product.model.assert_finished();
        self.product.model.requests().pop().unwrap().outline().join("\n")
    }
}

fn server(name: &str) -> Value {
    json!({ "type": "acp", "name": name, "serverId": format!("id of {name}") })
}

/// Returns what a server with one tool answers before its first call.
pub(crate) fn offered(method: &str) -> Option<Value> {
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

/// Answers what a server is asked before its first call.
async fn offer(client: &mut Client) {
    let asked = client.asked("mcp/message").await;
    let method = asked["params"]["method"].as_str().unwrap();
    let result = offered(method).unwrap_or_else(|| panic!("{method}"));
    client.respond(&asked["id"], json!({ "result": result })).await;
}

fn said(text: &str) -> Value {
    json!({ "result": { "content": [{ "type": "text", "text": text }], "resultType": "complete" } })
}

#[tokio::test]
async fn the_agent_says_that_clients_may_serve_tools() {
    let product = Product::new([]);
    let mut client = product.connect_with(1 << 16);
    let hello = client.introduce(json!({})).await;
    let servers = &hello["result"]["agentCapabilities"]["mcpCapabilities"];
    assert_eq!(*servers, json!({ "http": true, "sse": false, "acp": true }));
}

#[tokio::test]
async fn progress_of_a_tool_that_the_client_serves_is_shown_while_it_works() {
    let mut serving = Serving::of(1).await;
    let prompt = serving.begin().await;
    let asked = serving.call().await;
    let token = asked["params"]["params"]["_meta"]["progressToken"].clone();
    let progress = json!({ "progressToken": token, "progress": 1, "total": 2, "message": "half" });
    serving.tell(&asked, "notifications/progress", progress).await;
    let client = &mut serving.client;
    client.until(|message| message.to_string().contains("1/2 half")).await;
    client.respond(&asked["id"], said("all of it")).await;
    let answer = client.answer(prompt).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(serving.results().contains("all of it"));
}

#[tokio::test]
async fn a_client_of_version_2_serves_tools_as_well() {
    let mut serving = Serving::speaking(2, 1).await;
    serving.begin().await;
    let asked = serving.call().await;
    let token = asked["params"]["params"]["_meta"]["progressToken"].clone();
    let progress = json!({ "progressToken": token, "progress": 1, "total": 2 });
    serving.tell(&asked, "notifications/progress", progress).await;
    let client = &mut serving.client;
    client.until(|message| message.to_string().contains("1/2")).await;
    client.respond(&asked["id"], said("in other words")).await;
    client.until(|message| message["params"]["update"]["stopReason"] == "end_turn").await;
    assert!(serving.results().contains("in other words"));
}

#[tokio::test]
async fn the_no_of_a_server_and_the_clients_own_are_told_apart() {
    let mut serving = Serving::of(3).await;
    let prompt = serving.begin().await;
    let asked = serving.call().await;
    let error = json!({ "error": { "code": -32602, "message": "no such city", "data": null } });
    serving.client.respond(&asked["id"], error).await;
    let asked = serving.call().await;
    let error = json!({ "code": -33001, "message": "the provider was removed" });
    let line = json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error });
    serving.client.line(&line.to_string()).await;
    let asked = serving.call().await;
    serving.client.respond(&asked["id"], json!({ "neither": 1 })).await;
    serving.client.answer(prompt).await;
    let results = serving.results();
    for told in [
        "the server refused the call: no such city",
        "no answer came back from the client that serves it; it is not known whether the call had effects: the provider was removed",
    ] {
        assert!(results.contains(told), "{results}");
    }
    assert_eq!(results.matches("no answer came back").count(), 2, "{results}");
}

#[tokio::test]
async fn a_call_that_is_cancelled_is_withdrawn_from_the_client() {
    let mut serving = Serving::of(1).await;
    let prompt = serving.begin().await;
    let asked = serving.call().await;
    serving.client.notify("session/cancel", json!({ "sessionId": serving.session })).await;
    let withdrawn = serving.client.until(|message| message["method"] == "$/cancel_request").await;
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    let answer = serving.client.answer(prompt).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
}

#[tokio::test]
async fn a_call_ends_at_once_when_the_client_that_serves_it_is_gone_and_the_session_goes_on() {
    let mut serving = Serving::of(2).await;
    // Another client shows the session, and asks.
    let mut other = serving.product.connect().await;
    let params =
        json!({ "sessionId": serving.session, "cwd": serving.product.cwd(), "mcpServers": [] });
    other.request("session/resume", params).await;
    let prompt = other.begin_prompt(&serving.session, "go").await;
    for _ in 0..4 {
        offer(&mut serving.client).await;
    }
    serving.call().await;
    let Serving { product, client, session } = serving;
    client.leave().await;
    let answer = other.answer(prompt).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let requests = product.model.requests();
    let told = requests.last().unwrap().outline().join("\n");
    assert!(
        told.contains(
            "it is not known whether the call had effects: the client that serves it is gone"
        ),
        "{told}"
    );
    assert!(
        told.contains("the MCP server one is not there: the client that serves it is gone"),
        "{told}"
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
    assert_eq!(product.host.asked(), [""; 0]);
}

#[tokio::test]
async fn news_of_what_is_not_under_way_is_passed_over() {
    let mut serving = Serving::of(1).await;
    let prompt = serving.begin().await;
    let asked = serving.call().await;
    let token = asked["params"]["params"]["_meta"]["progressToken"].clone();
    let news = json!({ "progressToken": token, "progress": 1, "message": "forged" });
    for (server, request) in [
        (json!("id of one"), json!("4711")),
        (json!("id of two"), asked["params"]["requestId"].clone()),
        (json!("nobody"), json!("")),
    ] {
        let params = json!({ "serverId": server, "requestId": request, "method": "notifications/progress", "params": news });
        serving.client.notify("mcp/message", params).await;
    }
    serving.client.notify("mcp/message", json!({ "serverId": 1 })).await;
    serving.client.respond(&asked["id"], said("fine")).await;
    serving.client.answer(prompt).await;
    assert!(serving.results().contains("fine"));
    let updates = serving.client.updates();
    assert!(!json!(updates).to_string().contains("forged"), "{updates:?}");
}

#[tokio::test]
async fn a_client_that_floods_with_news_still_answers() {
    let mut serving = Serving::of(1).await;
    let prompt = serving.begin().await;
    let asked = serving.call().await;
    for _ in 0..5_000 {
        serving
            .tell(&asked, "notifications/message", json!({ "level": "info", "data": "x" }))
            .await;
    }
    serving.client.respond(&asked["id"], said("at last")).await;
    serving.client.answer(prompt).await;
    assert!(serving.results().contains("at last"));
}

#[tokio::test]
async fn a_prompt_that_waits_for_servers_says_so() {
    let mut serving = Serving::of(0).await;
    // Nobody answers what the servers are asked.
    let prompt = serving.client.begin_prompt(&serving.session, "go").await;
    let told = serving
        .client
        .until(|message| {
            let text = message["params"]["update"]["content"]["text"].as_str();
            text.is_some_and(|text| text.contains("MCP servers: one, two"))
        })
        .await;
    assert_eq!(told["method"], "session/update", "{told}");
    serving.client.notify("session/cancel", json!({ "sessionId": serving.session })).await;
    let end = serving.client.answer(prompt).await;
    assert_eq!(end["result"]["stopReason"], "cancelled", "{end}");
    assert!(serving.product.model.requests().is_empty());
}
