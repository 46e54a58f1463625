//! Tests of the request checks: each reports an invalid request and accepts a valid one.

use crow_testkit::{
    ModelServer, PrefixCheck, Rule, Script, ScriptedReply, ServerChecks, ServerOptions, Violation,
    WireDialect, check_body,
};
use serde_json::{Value, json};

use crate::bodies::{
    assistant_text, calls, first_request, messages, results, user_text, with_messages,
};
use crate::client::Client;

const ANTHROPIC: WireDialect = WireDialect::AnthropicMessages;
const RESPONSES: WireDialect = WireDialect::OpenAiResponses;
const CHAT: WireDialect = WireDialect::OpenAiChat;
const GEMINI: WireDialect = WireDialect::Gemini;

/// Returns the rules that a body violates.
fn broken(dialect: WireDialect, body: &Value) -> Vec<Rule> {
    let mut rules: Vec<_> =
        check_body(dialect, body).into_iter().map(|violation| violation.rule).collect();
    rules.dedup();
    rules
}

/// Returns the violations that a server reports for consecutive requests.
async fn violations_of(
    options: ServerOptions,
    dialect: WireDialect,
    bodies: &[Value],
) -> Vec<Violation> {
    let script = Script::repeating(ScriptedReply::new().text("Yes."));
    let server = ModelServer::start_with(script, options).await;
    let mut client = Client::connect(&server).await;
    for body in bodies {
        client.ask(dialect, body).await;
    }
    server.violations()
}

async fn rules(dialect: WireDialect, bodies: &[Value]) -> Vec<Rule> {
    let found = violations_of(ServerOptions::default(), dialect, bodies).await;
    found.into_iter().map(|violation| violation.rule).collect()
}

/// Returns a first request followed by further messages.
fn with(dialect: WireDialect, more: &[Vec<Value>]) -> Value {
    with_messages(dialect, &first_request(dialect, "Begin."), &more.concat())
}

#[tokio::test]
async fn right_conversations_pass_all_checks() {
    for dialect in WireDialect::ALL {
        let one = first_request(dialect, "Begin.");
        let two = with_messages(
            dialect,
            &one,
            &[calls(dialect, &["a", "b"]), results(dialect, &["a", "b"])].concat(),
        );
        let three = with_messages(
            dialect,
            &two,
            &[
                calls(dialect, &["c", "d"]),
                results(dialect, &["d", "c"]),
                vec![assistant_text(dialect, "Yes."), user_text(dialect, "More.")],
            ]
            .concat(),
        );
        assert_eq!(violations_of(ServerOptions::default(), dialect, &[one, two, three]).await, []);
    }
}

#[tokio::test]
async fn a_body_that_is_not_json_is_found_and_takes_no_step() {
    let server = ModelServer::start([ScriptedReply::new().text("One.")]).await;
    let mut client = Client::connect(&server).await;
    client.send_text(CHAT, "{oops").await;
    assert_eq!(client.response().await.status, 400);
    assert_eq!(server.remaining_steps(), 1);
    assert_eq!(server.violations()[0].rule, Rule::Json);
}

#[tokio::test]
async fn a_request_without_streaming_is_found() {
    for dialect in [ANTHROPIC, RESPONSES, CHAT] {
        let mut body = first_request(dialect, "A");
        body["stream"] = json!(false);
        assert_eq!(broken(dialect, &body), [Rule::Streaming]);
    }
    let server = ModelServer::start([ScriptedReply::new().text("One.")]).await;
    let mut client = Client::connect(&server).await;
    let body = first_request(GEMINI, "A").to_string();
    let length = body.len();
    client.write(&format!("POST /v1beta/models/m:streamGenerateContent HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")).await;
    client.response().await;
    assert_eq!(server.violations()[0].rule, Rule::Streaming);
}

#[test]
fn missing_required_fields_are_found() {
    for (dialect, name) in [
        (ANTHROPIC, "model"),
        (ANTHROPIC, "max_tokens"),
        (ANTHROPIC, "messages"),
        (RESPONSES, "model"),
        (RESPONSES, "input"),
        (CHAT, "model"),
        (CHAT, "messages"),
        (GEMINI, "contents"),
    ] {
        let mut body = first_request(dialect, "A");
        body.as_object_mut().unwrap().shift_remove(name);
        assert_eq!(broken(dialect, &body), [Rule::Required], "{dialect:?} {name}");
    }
}

#[tokio::test]
async fn missing_headers_are_found() {
    let server = ModelServer::start([ScriptedReply::new().text("One.")]).await;
    let mut client = Client::connect(&server).await;
    let body = first_request(ANTHROPIC, "A").to_string();
    let length = body.len();
    client
        .write(&format!("POST /v1/messages HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}"))
        .await;
    client.response().await;
    let found = server.violations();
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|violation| violation.rule == Rule::Required));
}

#[test]
fn a_call_without_a_result_is_found() {
    for dialect in WireDialect::ALL {
        let at_end = with(dialect, &[calls(dialect, &["a"])]);
        assert_eq!(broken(dialect, &at_end), [Rule::Pairing], "{dialect:?} at the end");
        let before_user =
            with(dialect, &[calls(dialect, &["a"]), vec![user_text(dialect, "Go on.")]]);
        assert_eq!(broken(dialect, &before_user), [Rule::Pairing], "{dialect:?} before a user");
        let one_of_two = with(dialect, &[calls(dialect, &["a", "b"]), results(dialect, &["a"])]);
        assert_eq!(broken(dialect, &one_of_two), [Rule::Pairing], "{dialect:?} one of two");
    }
}

#[test]
fn a_result_without_a_call_is_found() {
    for dialect in WireDialect::ALL {
        let orphan = with(dialect, &[results(dialect, &["a"])]);
        assert_eq!(broken(dialect, &orphan), [Rule::Pairing], "{dialect:?}");
        let other = with(dialect, &[calls(dialect, &["a"]), results(dialect, &["b"])]);
        assert_eq!(broken(dialect, &other), [Rule::Pairing], "{dialect:?} of another id");
    }
}

#[test]
fn a_second_result_is_found() {
    for dialect in WireDialect::ALL {
        let twice = with(dialect, &[calls(dialect, &["a"]), results(dialect, &["a", "a"])]);
        assert_eq!(broken(dialect, &twice), [Rule::Pairing], "{dialect:?}");
    }
}

#[test]
fn a_result_before_its_call_is_found() {
    for dialect in WireDialect::ALL {
        let swapped = with(dialect, &[results(dialect, &["a"]), calls(dialect, &["a"])]);
        assert!(broken(dialect, &swapped).contains(&Rule::Pairing), "{dialect:?}");
    }
}

#[test]
fn a_result_that_comes_a_turn_too_late_is_found() {
    for dialect in WireDialect::ALL {
        let late = with(
            dialect,
            &[
                calls(dialect, &["a", "b"]),
                results(dialect, &["a"]),
                vec![assistant_text(dialect, "Hm.")],
                results(dialect, &["b"]),
            ],
        );
        assert_eq!(broken(dialect, &late), [Rule::Pairing], "{dialect:?}");
    }
}

#[test]
fn a_call_id_used_twice_is_found() {
    for dialect in [ANTHROPIC, RESPONSES, CHAT] {
        let turn = [calls(dialect, &["a"]), results(dialect, &["a"])].concat();
        assert_eq!(broken(dialect, &with(dialect, &[turn.clone(), turn])), [Rule::Pairing]);
    }
}

#[test]
fn anthropic_results_must_stand_first_in_one_user_message() {
    let text = json!({"type": "text", "text": "By the way."});
    let mut after = with(ANTHROPIC, &[calls(ANTHROPIC, &["a"]), results(ANTHROPIC, &["a"])]);
    let content = messages(ANTHROPIC, &mut after)[2]["content"].as_array_mut().unwrap();
    content.push(text.clone());
    assert_eq!(broken(ANTHROPIC, &after), [], "text after the results is fine");
    let mut before = with(ANTHROPIC, &[calls(ANTHROPIC, &["a"]), results(ANTHROPIC, &["a"])]);
    let content = messages(ANTHROPIC, &mut before)[2]["content"].as_array_mut().unwrap();
    content.insert(0, text);
    assert_eq!(broken(ANTHROPIC, &before), [Rule::Pairing]);
    let split = with(
        ANTHROPIC,
        &[calls(ANTHROPIC, &["a", "b"]), results(ANTHROPIC, &["a"]), results(ANTHROPIC, &["b"])],
    );
    assert_eq!(broken(ANTHROPIC, &split), [Rule::Pairing]);
}

#[test]
fn responses_items_of_one_reply_may_stand_between_its_calls() {
    let mixed = with(
        RESPONSES,
        &[
            calls(RESPONSES, &["a"]),
            vec![assistant_text(RESPONSES, "And also:")],
            calls(RESPONSES, &["b"]),
            results(RESPONSES, &["b", "a"]),
        ],
    );
    assert_eq!(broken(RESPONSES, &mixed), []);
}

#[test]
fn responses_reasoning_needs_the_item_it_led_to() {
    let reasoning = json!({"type": "reasoning", "summary": [], "encrypted_content": "x"});
    let followed = with(
        RESPONSES,
        &[vec![reasoning.clone()], calls(RESPONSES, &["a"]), results(RESPONSES, &["a"])],
    );
    assert_eq!(broken(RESPONSES, &followed), []);
    let alone = with(RESPONSES, &[vec![reasoning, user_text(RESPONSES, "Go on.")]]);
    assert_eq!(broken(RESPONSES, &alone), [Rule::Echo]);
}

#[test]
fn gemini_calls_must_follow_a_user_or_result_turn() {
    let twice = with(
        GEMINI,
        &[vec![assistant_text(GEMINI, "I look.")], calls(GEMINI, &["a"]), results(GEMINI, &["a"])],
    );
    assert_eq!(broken(GEMINI, &twice), [Rule::Pairing]);
}

#[test]
fn gemini_results_are_matched_by_name_where_there_are_no_ids() {
    let call = |name: &str| json!({"functionCall": {"name": name, "args": {}}});
    let result = |name: &str| json!({"functionResponse": {"name": name, "response": {}}});
    let turn = |first: &str, second: &str| {
        with(
            GEMINI,
            &[vec![
                json!({"role": "model", "parts": [call("look"), call("list")]}),
                json!({"role": "user", "parts": [result(first), result(second)]}),
            ]],
        )
    };
    assert_eq!(broken(GEMINI, &turn("look", "list")), []);
    assert_eq!(broken(GEMINI, &turn("look", "look")), [Rule::Pairing]);
}

#[test]
fn illegal_roles_are_found() {
    for (dialect, role) in
        [(ANTHROPIC, "system"), (RESPONSES, "tool"), (CHAT, "model"), (GEMINI, "assistant")]
    {
        let mut message = user_text(dialect, "Go on.");
        message["role"] = json!(role);
        let body = with(dialect, &[vec![assistant_text(dialect, "Yes."), message]]);
        assert!(broken(dialect, &body).contains(&Rule::Roles), "{dialect:?}");
    }
}

#[test]
fn a_first_message_of_the_model_is_found() {
    for dialect in [ANTHROPIC, GEMINI] {
        let mut body = first_request(dialect, "A");
        messages(dialect, &mut body).insert(0, assistant_text(dialect, "I begin."));
        assert_eq!(broken(dialect, &body), [Rule::Roles]);
    }
}

#[test]
fn content_that_the_vendor_refuses_is_found() {
    let wrong = [
        (ANTHROPIC, json!({"role": "user", "content": []})),
        (ANTHROPIC, json!({"role": "user", "content": " "})),
        (ANTHROPIC, json!({"role": "user", "content": [{"type": "text", "text": "\n"}]})),
        (
            ANTHROPIC,
            json!({"role": "user", "content": [
            {"type": "thinking", "thinking": "x", "signature": "y"}]}),
        ),
        (RESPONSES, json!({"role": "user", "content": [{"type": "output_text", "text": "x"}]})),
        (RESPONSES, json!({"type": "reasoning"})),
        (CHAT, json!({"role": "assistant", "content": null})),
        (CHAT, json!({"role": "assistant", "content": "x", "tool_calls": []})),
        (CHAT, json!({"role": "user", "content": null})),
        (GEMINI, json!({"role": "user", "parts": []})),
    ];
    for (dialect, message) in wrong {
        let body = with(dialect, &[vec![assistant_text(dialect, "Yes."), message]]);
        assert!(broken(dialect, &body).contains(&Rule::Roles), "{dialect:?} {body}");
    }
}

#[test]
fn arguments_and_results_of_the_wrong_type_are_found() {
    let mut anthropic = calls(ANTHROPIC, &["a"]);
    anthropic[0]["content"][0]["input"] = json!("{}");
    let mut responses = calls(RESPONSES, &["a"]);
    responses[0]["arguments"] = json!({});
    let mut chat = calls(CHAT, &["a"]);
    chat[0]["tool_calls"][0]["function"]["arguments"] = json!({});
    let mut gemini = calls(GEMINI, &["a"]);
    gemini[0]["parts"][0]["functionCall"]["args"] = json!("{}");
    for (dialect, calls) in
        [(ANTHROPIC, anthropic), (RESPONSES, responses), (CHAT, chat), (GEMINI, gemini)]
    {
        let body = with(dialect, &[calls, results(dialect, &["a"])]);
        assert_eq!(broken(dialect, &body), [Rule::Roles], "{dialect:?}");
    }
}

#[test]
fn a_fifth_cache_mark_is_found_and_inputs_do_not_count() {
    let mark = json!({"type": "ephemeral"});
    let mut body = with(ANTHROPIC, &[calls(ANTHROPIC, &["a"]), results(ANTHROPIC, &["a"])]);
    body["tools"][0]["cache_control"] = mark.clone();
    body["system"][0]["cache_control"] = mark.clone();
    body["messages"][0]["content"][0]["cache_control"] = mark.clone();
    body["messages"][2]["content"][0]["cache_control"] = mark.clone();
    body["messages"][1]["content"][0]["input"] = json!({"cache_control": "an argument"});
    assert_eq!(broken(ANTHROPIC, &body), []);
    body["messages"][1]["content"][0]["cache_control"] = mark;
    assert_eq!(broken(ANTHROPIC, &body), [Rule::CacheMarks]);
}

#[test]
fn a_cache_mark_on_thinking_is_found() {
    let block = json!({
        "type": "thinking", "thinking": "x", "signature": "y", "cache_control": {"type": "ephemeral"},
    });
    let turn = json!({"role": "assistant", "content": [block, {"type": "text", "text": "Yes."}]});
    let body = with(ANTHROPIC, &[vec![turn, user_text(ANTHROPIC, "Go on.")]]);
    assert_eq!(broken(ANTHROPIC, &body), [Rule::CacheMarks]);
}

#[tokio::test]
async fn a_changed_prefix_is_found_wherever_it_changes() {
    for dialect in WireDialect::ALL {
        let one =
            with(dialect, &[vec![assistant_text(dialect, "Yes."), user_text(dialect, "Go on.")]]);
        let extended = with_messages(
            dialect,
            &one,
            &[assistant_text(dialect, "Yes."), user_text(dialect, "More.")],
        );
        assert_eq!(rules(dialect, &[one.clone(), one.clone(), extended.clone()]).await, []);
        let mut other_tool = extended.clone();
        let tools = other_tool["tools"].to_string().replace("look", "other");
        other_tool["tools"] = serde_json::from_str(&tools).unwrap();
        let mut shorter = extended.clone();
        messages(dialect, &mut shorter).pop();
        let mut edited = extended.clone();
        let middle = messages(dialect, &mut edited).len() - 3;
        messages(dialect, &mut edited)[middle] = user_text(dialect, "Something else.");
        for (wrong, count) in [(other_tool, 1), (edited, 1)] {
            assert_eq!(rules(dialect, &[one.clone(), wrong]).await, [Rule::Prefix; 1][..count]);
        }
        assert_eq!(rules(dialect, &[extended, shorter]).await, [Rule::Prefix]);
    }
}

#[tokio::test]
async fn moved_cache_marks_do_not_break_the_prefix() {
    let mark = json!({"type": "ephemeral"});
    let plain = with(ANTHROPIC, &[calls(ANTHROPIC, &["a"]), results(ANTHROPIC, &["a"])]);
    let mut one = plain.clone();
    one["messages"][2]["content"][0]["cache_control"] = mark.clone();
    let mut two = with_messages(
        ANTHROPIC,
        &plain,
        &[assistant_text(ANTHROPIC, "Yes."), user_text(ANTHROPIC, "Go on.")],
    );
    two["messages"][4]["content"] =
        json!([{"type": "text", "text": "Go on.", "cache_control": mark}]);
    let three = with_messages(
        ANTHROPIC,
        &plain,
        &[
            assistant_text(ANTHROPIC, "Yes."),
            user_text(ANTHROPIC, "Go on."),
            assistant_text(ANTHROPIC, "Yes."),
            user_text(ANTHROPIC, "More."),
        ],
    );
    assert_eq!(rules(ANTHROPIC, &[one, two, three]).await, []);
}

#[tokio::test]
async fn a_new_conversation_is_no_break_but_a_new_system_prompt_can_be_made_one() {
    for dialect in WireDialect::ALL {
        let (one, two) = (first_request(dialect, "One."), first_request(dialect, "Two."));
        assert_eq!(rules(dialect, &[one.clone(), two.clone(), one.clone()]).await, []);
        let checks =
            ServerChecks { prefix: PrefixCheck::OneConversation, ..ServerChecks::default() };
        let options = ServerOptions { checks, ..ServerOptions::default() };
        let found = violations_of(options, dialect, &[one, two]).await;
        assert_eq!(found[0].rule, Rule::Prefix, "{dialect:?}");
    }
}

#[tokio::test]
async fn a_maintenance_point_can_be_declared_and_the_check_switched_off() {
    let (long, short) = (
        with(CHAT, &[vec![assistant_text(CHAT, "Yes."), user_text(CHAT, "Go on.")]]),
        with(CHAT, &[vec![user_text(CHAT, "A summary.")]]),
    );
    let checks = ServerChecks { prefix: PrefixCheck::Off, ..ServerChecks::default() };
    let options = ServerOptions { checks, ..ServerOptions::default() };
    assert_eq!(violations_of(options, CHAT, &[long.clone(), short.clone()]).await, []);
    let options = ServerOptions {
        checks: ServerChecks::default().without(Rule::Prefix),
        ..ServerOptions::default()
    };
    assert_eq!(violations_of(options, CHAT, &[long.clone(), short.clone()]).await, []);
    let server = ModelServer::start(Script::repeating(ScriptedReply::new().text("Yes."))).await;
    let mut client = Client::connect(&server).await;
    client.ask(CHAT, &long).await;
    server.allow_prefix_break();
    client.ask(CHAT, &short).await;
    server.assert_clean();
    client.ask(CHAT, &long).await;
    assert_eq!(server.violations()[0].rule, Rule::Prefix);
    let detail = &server.violations()[0].detail;
    assert!(detail.contains("A summary.") && detail.contains("Yes."), "{detail}");
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_and_found() {
    let checks = ServerChecks { max_body: 1000, ..ServerChecks::default() };
    let options = ServerOptions { checks, ..ServerOptions::default() };
    let server = ModelServer::start_with([ScriptedReply::new().text("One.")], options).await;
    let long = first_request(CHAT, &"x".repeat(8_000_000));
    assert_eq!(Client::connect(&server).await.ask(CHAT, &long).await.status, 413);
    let body = long.to_string();
    let mut client = Client::connect(&server).await;
    client.write("POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    client.write(&format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())).await;
    assert_eq!(client.response().await.status, 413);
    assert_eq!(server.remaining_steps(), 1);
    let found = server.finish().await.unwrap_err();
    assert!(found.0.iter().all(|violation| violation.rule == Rule::BodySize));
    assert_eq!(found.0.len(), 2);
}

#[test]
fn tools_that_the_vendor_refuses_are_found() {
    for dialect in WireDialect::ALL {
        let body = first_request(dialect, "A").to_string();
        let renamed =
            |name: &str| -> Value { serde_json::from_str(&body.replace("look", name)).unwrap() };
        assert_eq!(broken(dialect, &renamed("look_2-a")), [], "{dialect:?}");
        assert_eq!(broken(dialect, &renamed("look/it")), [Rule::Tools], "{dialect:?}");
        assert_eq!(broken(dialect, &renamed(&"l".repeat(129))), [Rule::Tools], "{dialect:?}");
        let mut twice = first_request(dialect, "A");
        let tools = twice["tools"].as_array_mut().unwrap();
        tools.push(tools[0].clone());
        assert_eq!(broken(dialect, &twice), [Rule::Tools], "{dialect:?}");
    }
    let mut untyped = first_request(ANTHROPIC, "A");
    untyped["tools"][0]["input_schema"] = json!({"properties": {}});
    assert_eq!(broken(ANTHROPIC, &untyped), [Rule::Tools]);
}

#[test]
fn anthropic_calls_without_tools_are_found() {
    let mut body = with(ANTHROPIC, &[calls(ANTHROPIC, &["a"]), results(ANTHROPIC, &["a"])]);
    body.as_object_mut().unwrap().shift_remove("tools");
    assert_eq!(broken(ANTHROPIC, &body), [Rule::Tools]);
}

#[tokio::test]
async fn marks_inside_results_count_and_do_not_break_the_prefix() {
    let mark = json!({"type": "ephemeral"});
    let seen = json!([{"type": "text", "text": "seen"}, {"type": "text", "text": "more"}]);
    let mut plain = with(ANTHROPIC, &[calls(ANTHROPIC, &["a"]), results(ANTHROPIC, &["a"])]);
    plain["messages"][2]["content"][0]["content"] = seen;
    let mut marked = plain.clone();
    marked["messages"][2]["content"][0]["content"][1]["cache_control"] = mark.clone();
    assert_eq!(rules(ANTHROPIC, &[marked.clone(), plain]).await, []);
    marked["messages"][2]["content"][0]["content"][0]["cache_control"] = mark.clone();
    marked["messages"][2]["content"][0]["cache_control"] = mark.clone();
    marked["tools"][0]["cache_control"] = mark.clone();
    assert_eq!(broken(ANTHROPIC, &marked), []);
    marked["system"][0]["cache_control"] = mark;
    assert_eq!(broken(ANTHROPIC, &marked), [Rule::CacheMarks]);
}

#[test]
fn a_missing_result_is_reported_once() {
    for dialect in WireDialect::ALL {
        let more = [
            user_text(dialect, "Go on."),
            assistant_text(dialect, "Yes."),
            user_text(dialect, "More."),
        ];
        let body = with(dialect, &[calls(dialect, &["a"]), more.to_vec()]);
        assert_eq!(check_body(dialect, &body).len(), 1, "{dialect:?}");
    }
}
