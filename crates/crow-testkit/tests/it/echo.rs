//! Tests of the check that reasoning is sent back unchanged.

use crow_testkit::{
    ChatFlavour, ModelServer, Rule, Script, ScriptedReply, ServerOptions, WireDialect,
};
use serde_json::{Value, json};

use crate::bodies::{calls, first_request, results, user_text, with_messages};
use crate::client::Client;

fn reply() -> ScriptedReply {
    ScriptedReply::new()
        .thinking("I think.", "sig-1")
        .redacted("opaque")
        .call("a", "look", &json!({"n": 1}))
        .thinking("I think again.", "sig-2")
        .call("b", "look", &json!({"n": 2}))
}

/// Returns the rules violated by a second request that contains `turn`.
async fn broken(
    chat: ChatFlavour,
    dialect: WireDialect,
    reply: ScriptedReply,
    turn: &[Value],
) -> Vec<Rule> {
    let options = ServerOptions { chat, ..ServerOptions::default() };
    let script = Script::new().then(reply).then(ScriptedReply::new().text("Done."));
    let server = ModelServer::start_with(script, options).await;
    let mut client = Client::connect(&server).await;
    let body = first_request(dialect, "Begin.");
    client.ask(dialect, &body).await;
    client.ask(dialect, &with_messages(dialect, &body, turn)).await;
    server.violations().into_iter().map(|violation| violation.rule).collect()
}

async fn anthropic(blocks: Value) -> Vec<Rule> {
    let dialect = WireDialect::AnthropicMessages;
    let turn = vec![json!({"role": "assistant", "content": blocks})];
    let turn = [turn, results(dialect, &["a", "b"])].concat();
    broken(ChatFlavour::OpenAi, dialect, reply(), &turn).await
}

fn thinking(text: &str, signature: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": signature})
}

fn tool_use(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "look", "input": {}})
}

#[tokio::test]
async fn anthropic_thinking_must_come_back_verbatim_and_in_order() {
    let (one, two) = (thinking("I think.", "sig-1"), thinking("I think again.", "sig-2"));
    let redacted = json!({"type": "redacted_thinking", "data": "opaque"});
    let (a, b) = (tool_use("a"), tool_use("b"));
    assert_eq!(anthropic(json!([one, redacted, a, two, b])).await, []);
    for wrong in [
        json!([a, b]),
        json!([one, redacted, two, a, b]),
        json!([redacted, one, a, two, b]),
        json!([one, a, two, b]),
        json!([thinking("I think.", "sig-x"), redacted, a, two, b]),
        json!([thinking("I thought.", "sig-1"), redacted, a, two, b]),
    ] {
        assert_eq!(anthropic(wrong.clone()).await, [Rule::Echo], "{wrong}");
    }
}

#[tokio::test]
async fn anthropic_thinking_before_a_text_must_come_back_too() {
    let dialect = WireDialect::AnthropicMessages;
    let sent = || ScriptedReply::new().thinking("I think.", "sig-1").text("So it is.");
    let said = json!({"type": "text", "text": "So it is."});
    for (blocks, expected) in [
        (json!([thinking("I think.", "sig-1"), said]), vec![]),
        (json!([said]), vec![Rule::Echo]),
        (json!([{"type": "text", "text": "Not the server's."}]), vec![]),
        (
            json!([thinking("Another.", "sig-1"), {"type": "text", "text": "Other."}]),
            vec![Rule::Echo],
        ),
    ] {
        let turn = [json!({"role": "assistant", "content": blocks}), user_text(dialect, "Go on.")];
        assert_eq!(broken(ChatFlavour::OpenAi, dialect, sent(), &turn).await, expected);
    }
}

async fn responses(items: Vec<Value>) -> Vec<Rule> {
    let dialect = WireDialect::OpenAiResponses;
    let turn = [items, results(dialect, &["a", "b"])].concat();
    broken(ChatFlavour::OpenAi, dialect, reply(), &turn).await
}

#[tokio::test]
async fn responses_reasoning_must_come_back_before_its_call() {
    let item = |encrypted: &str, summary: &str| {
        let summary = if summary.is_empty() {
            json!([])
        } else {
            json!([{"type": "summary_text", "text": summary}])
        };
        json!({"type": "reasoning", "summary": summary, "encrypted_content": encrypted})
    };
    let (one, redacted) = (item("sig-1", "I think."), item("opaque", ""));
    let two = item("sig-2", "I think again.");
    let call = |id| calls(WireDialect::OpenAiResponses, &[id]).remove(0);
    let (a, b) = (call("a"), call("b"));
    let of = |items: &[&Value]| items.iter().map(|item| (*item).clone()).collect::<Vec<_>>();
    assert_eq!(responses(of(&[&one, &redacted, &a, &two, &b])).await, []);
    assert_eq!(responses(of(&[&a, &b])).await, [Rule::Echo; 2]);
    assert_eq!(responses(of(&[&one, &redacted, &a, &b])).await, [Rule::Echo]);
    assert_eq!(responses(of(&[&one, &a, &redacted, &two, &b])).await, [Rule::Echo]);
    let provisional = item("provisional-0", "I think.");
    assert_eq!(responses(of(&[&provisional, &redacted, &a, &two, &b])).await, [Rule::Echo; 2]);
    assert_eq!(responses(of(&[&redacted, &one, &a, &two, &b])).await, [Rule::Echo; 2]);
    let shortened = item("sig-1", "I");
    assert_eq!(responses(of(&[&shortened, &redacted, &a, &two, &b])).await, [Rule::Echo; 2]);
}

async fn gemini(parts: Value) -> Vec<Rule> {
    let dialect = WireDialect::Gemini;
    let turn = [vec![json!({"role": "model", "parts": parts})], results(dialect, &["a", "b"])];
    broken(ChatFlavour::OpenAi, dialect, reply(), &turn.concat()).await
}

#[tokio::test]
async fn gemini_signatures_must_come_back_on_their_calls() {
    let call = |id: &str, n: u8, signature: &str| {
        json!({
            "functionCall": {"id": id, "name": "look", "args": {"n": n}},
            "thoughtSignature": signature,
        })
    };
    let unsigned = json!({"functionCall": {"id": "a", "name": "look", "args": {"n": 1}}});
    assert_eq!(gemini(json!([call("a", 1, "opaque"), call("b", 2, "sig-2")])).await, []);
    assert_eq!(gemini(json!([unsigned, call("b", 2, "sig-2")])).await, [Rule::Echo]);
    assert_eq!(
        gemini(json!([call("a", 1, "sig-2"), call("b", 2, "opaque")])).await,
        [Rule::Echo; 2]
    );
}

#[tokio::test]
async fn gemini_signatures_of_a_text_must_come_back_on_a_text() {
    let dialect = WireDialect::Gemini;
    let sent = || ScriptedReply::new().thinking("I think.", "sig-1").text("So it is.");
    for (parts, expected) in [
        (json!([{"text": "So it is."}, {"text": "", "thoughtSignature": "sig-1"}]), vec![]),
        (json!([{"text": "So it is.", "thoughtSignature": "sig-1"}]), vec![]),
        (json!([{"text": "So it is."}]), vec![Rule::Echo]),
    ] {
        let turn = [json!({"role": "model", "parts": parts}), user_text(dialect, "Go on.")];
        assert_eq!(broken(ChatFlavour::OpenAi, dialect, sent(), &turn).await, expected);
    }
}

#[tokio::test]
async fn openrouter_details_must_come_back_whole() {
    let dialect = WireDialect::OpenAiChat;
    let details = json!([
        {"type": "reasoning.text", "text": "I think.", "signature": "sig-1", "index": 0},
        {"type": "reasoning.encrypted", "data": "opaque", "index": 1},
        {"type": "reasoning.text", "text": "I think again.", "signature": "sig-2", "index": 2},
    ]);
    let turn = |details: &Value| {
        let mut turn = [calls(dialect, &["a", "b"]), results(dialect, &["a", "b"])].concat();
        turn[0]["reasoning_details"] = details.clone();
        turn
    };
    let flavour = ChatFlavour::OpenRouter;
    assert_eq!(broken(flavour, dialect, reply(), &turn(&details)).await, []);
    assert_eq!(broken(flavour, dialect, reply(), &turn(&Value::Null)).await, [Rule::Echo]);
    let mut unsigned = details;
    unsigned[0].as_object_mut().unwrap().shift_remove("signature");
    assert_eq!(broken(flavour, dialect, reply(), &turn(&unsigned)).await, [Rule::Echo]);
}

#[tokio::test]
async fn a_reply_that_was_cut_need_not_come_back() {
    let dialect = WireDialect::AnthropicMessages;
    let cut = crow_testkit::Fault::WithoutTerminal(crow_testkit::BodyEnd::Clean);
    let script = Script::new().then(reply().with(cut)).then(ScriptedReply::new().text("Done."));
    let server = ModelServer::start(script).await;
    let mut client = Client::connect(&server).await;
    let body = first_request(dialect, "Begin.");
    client.ask(dialect, &body).await;
    let turn = [calls(dialect, &["a", "b"]), results(dialect, &["a", "b"])].concat();
    client.ask(dialect, &with_messages(dialect, &body, &turn)).await;
    server.assert_clean();
}

#[tokio::test]
async fn another_models_reasoning_need_not_come_back() {
    let dialect = WireDialect::AnthropicMessages;
    let server = ModelServer::start([reply(), ScriptedReply::new().text("Done.")]).await;
    let mut client = Client::connect(&server).await;
    let body = first_request(dialect, "Begin.");
    client.ask(dialect, &body).await;
    let turn = [calls(dialect, &["a", "b"]), results(dialect, &["a", "b"])].concat();
    let mut switched = with_messages(dialect, &body, &turn);
    switched["model"] = json!("other-model");
    client.ask(dialect, &switched).await;
    server.assert_clean();
}

#[tokio::test]
async fn responses_reasoning_that_the_server_keeps_need_not_come_back() {
    let dialect = WireDialect::OpenAiResponses;
    let turn = [calls(dialect, &["a", "b"]), results(dialect, &["a", "b"])].concat();
    for (name, value) in [("store", json!(true)), ("include", json!([]))] {
        let server = ModelServer::start([reply(), ScriptedReply::new().text("Done.")]).await;
        let mut client = Client::connect(&server).await;
        let mut body = first_request(dialect, "Begin.");
        body[name] = value;
        client.ask(dialect, &body).await;
        client.ask(dialect, &with_messages(dialect, &body, &turn)).await;
        server.assert_clean();
    }
}

#[tokio::test]
async fn unsigned_thinking_may_come_back_or_not() {
    let dialect = WireDialect::AnthropicMessages;
    for blocks in [json!([thinking("I think.", ""), tool_use("a")]), json!([tool_use("a")])] {
        let sent = ScriptedReply::new().thinking("I think.", "").call("a", "look", &json!({}));
        let turn = vec![json!({"role": "assistant", "content": blocks})];
        let turn = [turn, results(dialect, &["a"])].concat();
        assert_eq!(broken(ChatFlavour::OpenAi, dialect, sent, &turn).await, []);
    }
}
