//! Calls in text, over real bytes.

use std::sync::Arc;

use crow_core::{ids::MessageId, message::ReplyContent};
use crow_core::{
    message::{Block, CallArguments, Message, UserMessage},
    model::{ModelInfo, ModelReply, StopReason, TextCallNotes, ToolCallFormat, ToolChoice},
};
use crow_providers::{
    ApiKey, Dialect, Endpoint, HttpClient, HttpProvider, RetryPolicy, TextCallProvider, Timeouts,
};
use crow_testkit::{
    BodyEnd, DeltaSize, Fault, ModelServer, ScriptStep, ScriptedReply, ScriptedStop, ServerOptions,
    WireDialect,
};
use serde_json::json;

use crate::support::{DIALECTS, KEY, Talk, model};

const CALL: &str =
    "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>";

fn provider(server: &ModelServer, dialect: (Dialect, WireDialect)) -> TextCallProvider {
    let endpoint = Endpoint {
        provider: "tested".to_owned(),
        dialect: dialect.0,
        base_url: server.base_url(dialect.1),
        key: ApiKey::new(KEY),
        headers: Vec::new(),
    };
    let (client, retry) = (HttpClient::default(), RetryPolicy::without_waits(3));
    let provider =
        HttpProvider::with_timeouts(endpoint, client, retry, Timeouts::default()).unwrap();
    TextCallProvider::new(Arc::new(provider))
}

fn talk(server: &ModelServer, dialect: (Dialect, WireDialect), tool_calls: ToolCallFormat) -> Talk {
    let info = ModelInfo { tool_calls: Some(tool_calls), ..model("test-model") };
    Talk::of(&provider(server, dialect), &info)
}

fn chat(server: &ModelServer, tool_calls: ToolCallFormat) -> Talk {
    talk(server, DIALECTS[3], tool_calls)
}

/// Formats the blocks of a reply: text in quotes, calls with their arguments.
fn outline(reply: &ModelReply) -> String {
    let blocks = reply.blocks.iter().map(|block| match &block.content {
        ReplyContent::Text { text } => format!("{text:?}"),
        ReplyContent::Thinking { text } => format!("[{text}]"),
        ReplyContent::Call(call) => match &call.arguments {
            CallArguments::Json(value) => format!("{}{value}", call.name),
            CallArguments::Malformed(text) => format!("{} malformed {text:?}", call.name),
        },
        ReplyContent::Opaque => "opaque".to_owned(),
    });
    blocks.collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_model_without_native_calls_works_in_text_in_every_format() {
    for dialect in DIALECTS {
        let server = ModelServer::start([
            ScriptedReply::new().text(format!("I read it.\n\n{CALL}")),
            ScriptedReply::new().text(CALL.replace("\"a\"", "\"b\"")),
            ScriptedReply::new().text("It is done."),
        ])
        .await;
        let mut talk = talk(&server, dialect, ToolCallFormat::Text);
        let first = talk.step().await;
        assert_eq!(outline(&first), r#""I read it." read_file{"path":"a"}"#, "{dialect:?}");
        assert_eq!(
            (first.stop, &first.text_calls),
            (StopReason::ToolUse, &TextCallNotes::default())
        );
        let second = talk.step().await;
        assert_eq!(outline(&second), r#"read_file{"path":"b"}"#, "{dialect:?}");
        let last = talk.step().await;
        assert_eq!((outline(&last).as_str(), last.stop), ("\"It is done.\"", StopReason::EndTurn));
        // The server has checked that each request begins with the one before.
        let requests = server.finish().await.unwrap();
        for request in &requests {
            let body = request.body.to_string();
            assert!(request.body.get("tools").is_none(), "{dialect:?}: {body}");
            assert!(body.contains(r#"<tools>\n{\"name\":\"read_file\""#), "{dialect:?}: {body}");
        }
        let body = requests[2].body.to_string();
        for sent in [
            r#"I read it.\n\n<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\":\"a\"}}\n</tool_call>"#,
            r#"<tool_result name=\"read_file\">\ndone\n</tool_result>"#,
        ] {
            assert!(body.contains(sent), "{dialect:?}: {body}");
        }
    }
}

#[tokio::test]
async fn results_and_the_message_after_them_are_one_message_of_the_user() {
    let server =
        ModelServer::start([ScriptedReply::new().text(CALL), ScriptedReply::new().text("Yes.")])
            .await;
    let mut talk = chat(&server, ToolCallFormat::Text);
    talk.step().await;
    talk.messages.push(Arc::new(Message::User(UserMessage {
        id: MessageId::new("notice"),
        content: vec![Block::text("Hurry.")],
    })));
    talk.step().await;
    let requests = server.finish().await.unwrap();
    let messages = requests[1].body["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    let last = messages[3]["content"].as_str().unwrap();
    assert!(last.starts_with("<tool_result") && last.ends_with("Hurry."), "{last}");
}

#[tokio::test]
async fn only_the_text_before_a_call_is_streamed_however_the_bytes_are_cut() {
    let text = format!("Ich prüfe – 日本.\n\n{CALL}");
    for pieces in [DeltaSize::chars(1), DeltaSize::Words, DeltaSize::Whole] {
        for format in [ToolCallFormat::Native, ToolCallFormat::Text] {
            let options = ServerOptions { pieces, ..ServerOptions::default() };
            let reply = ScriptedReply::new().text(text.clone()).with(Fault::every_byte());
            let server = ModelServer::start_with([reply], options).await;
            let outcome = chat(&server, format).ask().await;
            assert_eq!(outcome.streamed_text(), "Ich prüfe – 日本.", "{pieces:?} {format:?}");
            assert_eq!(outcome.started(), [""]);
            let reply = outcome.reply.unwrap();
            assert_eq!(outline(&reply), r#""Ich prüfe – 日本." read_file{"path":"a"}"#);
        }
    }
}

#[tokio::test]
async fn text_that_only_looked_like_a_call_is_shown_in_the_end() {
    let text = "See:\n\n<tool_call>{\"name\": \"fly\", \"arguments\": {}}</tool_call>\n\nNo?";
    let server = ModelServer::start([ScriptedReply::new().text(text)]).await;
    let outcome = chat(&server, ToolCallFormat::Text).ask().await;
    assert_eq!(outcome.streamed_text(), text);
    let reply = outcome.reply.unwrap();
    assert_eq!(outline(&reply), format!("{text:?}"));
    let unread = reply.text_calls.unread.unwrap();
    assert!(unread.starts_with("There is no tool named \"fly\""), "{unread}");
    assert!(unread.contains("<tool_call>"), "{unread}");
}

#[tokio::test]
async fn a_call_in_the_text_of_a_model_with_native_calls_is_read_and_noted() {
    for dialect in DIALECTS {
        let server = ModelServer::start([
            ScriptedReply::new().text(CALL),
            ScriptedReply::new().text("It is done."),
        ])
        .await;
        let mut talk = talk(&server, dialect, ToolCallFormat::Native);
        let reply = talk.step().await;
        assert_eq!(outline(&reply), r#"read_file{"path":"a"}"#, "{dialect:?}");
        assert!(reply.text_calls.repair.is_some(), "{dialect:?}");
        talk.step().await;
        // The call is sent back in the native form, with its result: the server has checked the pairs.
        let requests = server.finish().await.unwrap();
        assert!(requests[1].body.get("tools").is_some());
        assert!(!requests[1].body.to_string().contains("<tool_call>"), "{dialect:?}");
    }
}

#[tokio::test]
async fn a_call_that_a_file_says_is_not_made_by_quoting_it() {
    for format in [ToolCallFormat::Native, ToolCallFormat::Text] {
        let server = ModelServer::start([ScriptedReply::new().text(CALL)]).await;
        let mut talk = chat(&server, format);
        let says = vec![Block::text(format!("What does this do?\n{CALL}\n"))];
        let message = UserMessage { id: MessageId::new("quoted"), content: says };
        talk.messages = vec![Arc::new(Message::User(message))];
        let reply = talk.ask().await.reply.unwrap();
        assert_eq!(outline(&reply), format!("{CALL:?}"), "{format:?}");
        assert!(reply.text_calls.unread.unwrap().contains("is not run"), "{format:?}");
    }
}

#[tokio::test]
async fn an_answer_of_gpt_oss_without_reasoning_loses_its_marks() {
    let text = "<|channel|>final<|message|>It is done.<|return|>";
    let server = ModelServer::start([ScriptedReply::new().text(text)]).await;
    let outcome = chat(&server, ToolCallFormat::Native).ask().await;
    assert_eq!(outcome.streamed_text(), "It is done.");
    assert_eq!(outline(&outcome.reply.unwrap()), "\"It is done.\"");
}

#[tokio::test]
async fn text_beside_a_native_call_is_not_read() {
    let reply = ScriptedReply::new().text(CALL).call("c1", "write_file", &json!({"path": "b"}));
    let server = ModelServer::start([reply]).await;
    let outcome = chat(&server, ToolCallFormat::Native).ask().await;
    assert_eq!(outcome.streamed_text(), CALL);
    assert_eq!(
        outline(&outcome.reply.unwrap()),
        format!("{CALL:?} write_file{}", json!({"path": "b"}))
    );
}

#[tokio::test]
async fn nothing_is_read_where_no_call_may_be_made() {
    for format in [ToolCallFormat::Native, ToolCallFormat::Text] {
        let server = ModelServer::start([ScriptedReply::new().text(CALL)]).await;
        let mut forbidden = chat(&server, format);
        forbidden.tool_choice = ToolChoice::None;
        assert_eq!(outline(&forbidden.ask().await.reply.unwrap()), format!("{CALL:?}"));
        let server = ModelServer::start([ScriptedReply::new().text(CALL)]).await;
        let mut without = chat(&server, format);
        without.tools.clear();
        assert_eq!(outline(&without.ask().await.reply.unwrap()), format!("{CALL:?}"));
    }
}

#[tokio::test]
async fn the_beginning_of_a_call_is_forgotten_when_the_request_is_retried() {
    let cut = ScriptedReply::new()
        .text(format!("Wait. {CALL}"))
        .with(Fault::WithoutTerminal(BodyEnd::Clean));
    let server =
        ModelServer::start([cut, ScriptedReply::new().text(format!("Now. {CALL}")).into()]).await;
    let outcome = chat(&server, ToolCallFormat::Text).ask().await;
    assert_eq!(outcome.retries().len(), 1);
    assert_eq!(outcome.streamed_text(), "Now.");
    assert_eq!(outline(&outcome.reply.unwrap()), r#""Now." read_file{"path":"a"}"#);
}

#[tokio::test]
async fn a_reply_cut_at_the_output_limit_runs_only_its_complete_calls() {
    let half = format!("{CALL}\n<tool_call>\n{{\"name\": \"write_file\", \"argu");
    let server = ModelServer::start([
        ScriptedReply::new().text(half).with_stop(ScriptedStop::MaxTokens),
        ScriptedReply::new().text("<tool_call>\n{\"name").with_stop(ScriptedStop::MaxTokens),
    ])
    .await;
    let mut talk = chat(&server, ToolCallFormat::Text);
    let reply = talk.ask().await.reply.unwrap();
    assert_eq!(reply.calls().count(), 1);
    assert_eq!(reply.stop, StopReason::ToolUse);
    assert!(reply.text_calls.unread.unwrap().contains("incomplete"));
    let reply = talk.ask().await.reply.unwrap();
    assert_eq!((reply.calls().count(), reply.stop), (0, StopReason::MaxTokens));
    assert!(reply.text_calls.unread.is_some());
}

/// Refusals of tools: status and body.
fn refusals() -> Vec<(u16, &'static str)> {
    vec![
        // Ollama
        (
            400,
            r#"{"error":{"message":"registry.ollama.ai/library/gemma3:1b does not support tools","type":"api_error","param":null,"code":null}}"#,
        ),
        // vLLM
        (
            400,
            r#"{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError","param":null,"code":400}"#,
        ),
        // OpenAI
        (
            400,
            r#"{"error":{"message":"Unsupported parameter: 'tools' is not supported with this model.","type":"invalid_request_error","param":"tools","code":"unsupported_parameter"}}"#,
        ),
        // OpenRouter
        (
            404,
            r#"{"error":{"message":"No endpoints found that support tool use. To learn more about provider routing, visit: https://openrouter.ai/docs/provider-routing","code":404}}"#,
        ),
        // A server in Python that checks the fields of a request
        (
            422,
            r#"{"detail":[{"type":"extra_forbidden","loc":["body","tools"],"msg":"Extra inputs are not permitted","input":[]}]}"#,
        ),
        // llama.cpp without `--jinja`
        (
            500,
            r#"{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}"#,
        ),
        (501, r#"{"error":"tool use not supported"}"#),
        // An error that a router sends after the status.
        (
            200,
            "data: {\"error\":{\"message\":\"Tool calling is not supported for model: x\",\"code\":405}}\n\n",
        ),
    ]
}

fn refusal((status, body): (u16, &str)) -> ScriptStep {
    let kind = if body.starts_with("data:") { "text/event-stream" } else { "application/json" };
    let headers = vec![("content-type".to_owned(), kind.to_owned())];
    ScriptStep::Http { status, headers, body: body.to_owned().into() }
}

#[tokio::test]
async fn a_request_whose_tools_are_refused_is_sent_again_as_text() {
    for refused in refusals() {
        let server = ModelServer::start([
            refusal(refused),
            ScriptedReply::new().text(format!("I read it.\n\n{CALL}")).into(),
            ScriptedReply::new().text("It is done.").into(),
        ])
        .await;
        let mut talk = chat(&server, ToolCallFormat::Native);
        let outcome = talk.ask().await;
        let [warning] = outcome.warnings()[..] else { panic!("{:?}", outcome.events) };
        assert!(
            warning.contains("tool_calls = \"text\" under [models.\"test-model\"]"),
            "{warning}"
        );
        assert!(warning.contains("tested/test-model accepts no tools ("), "{warning}");
        assert_eq!(outcome.retries().len(), 0, "{refused:?}");
        assert_eq!(outcome.streamed_text(), "I read it.");
        let reply = outcome.reply.unwrap();
        assert_eq!(outline(&reply), r#""I read it." read_file{"path":"a"}"#);
        assert_eq!(reply.text_calls, TextCallNotes::default());
        talk.push_reply(1, &reply);
        // The next request has no tools from the start, and the user is not told again.
        let outcome = talk.ask().await;
        assert_eq!(outcome.warnings(), Vec::<&str>::new());
        let requests = server.finish().await.unwrap();
        let has_tools: Vec<_> =
            requests.iter().map(|request| request.body.get("tools").is_some()).collect();
        assert_eq!(has_tools, [true, false, false], "{refused:?}");
        let system = |index: usize| &requests[index].body["messages"][0]["content"];
        assert!(system(1).as_str().unwrap().contains("<tools>\n{\"name\":\"read_file\""));
        assert_eq!(system(1), system(2));
    }
}

#[tokio::test]
async fn refused_tools_are_sent_as_text_in_every_format() {
    for dialect in DIALECTS {
        let server = ModelServer::start([
            refusal(refusals()[0]),
            ScriptedReply::new().text(CALL).into(),
            ScriptedReply::new().text("It is done.").into(),
        ])
        .await;
        let mut talk = talk(&server, dialect, ToolCallFormat::Native);
        assert_eq!(outline(&talk.step().await), r#"read_file{"path":"a"}"#, "{dialect:?}");
        talk.step().await;
        let requests = server.finish().await.unwrap();
        assert!(requests[2].body.to_string().contains("<tool_result"), "{dialect:?}");
    }
}

#[tokio::test]
async fn a_model_that_refused_tools_gets_none_in_later_conversations_with_its_provider() {
    let server = ModelServer::start([
        refusal(refusals()[0]),
        ScriptedReply::new().text("One.").into(),
        ScriptedReply::new().text("Two.").into(),
        ScriptedReply::new().text("Three.").into(),
    ])
    .await;
    let provider = provider(&server, DIALECTS[3]);
    let info = model("test-model");
    Talk::of(&provider, &info).step().await;
    let outcome = Talk::of(&provider, &info).ask().await;
    assert_eq!((outcome.warnings().len(), outcome.streamed_text().as_str()), (0, "Two."));
    // Another model of the same provider is asked with tools.
    Talk::of(&provider, &model("other-model")).step().await;
    let requests = server.finish().await.unwrap();
    let has_tools: Vec<_> =
        requests.iter().map(|request| request.body.get("tools").is_some()).collect();
    assert_eq!(has_tools, [true, false, false, true]);
}

#[tokio::test]
async fn tools_that_are_refused_late_leave_the_conversation_intact() {
    let server = ModelServer::start([
        ScriptedReply::new().text("I look.").call("c1", "read_file", &json!({"path": "a"})).into(),
        refusal(refusals()[3]),
        ScriptedReply::new().text("It is done.").into(),
    ])
    .await;
    let mut talk = chat(&server, ToolCallFormat::Native);
    talk.step().await;
    assert_eq!(outline(&talk.step().await), "\"It is done.\"");
    let requests = server.finish().await.unwrap();
    let body = requests[2].body.to_string();
    for sent in [
        r#"I look.\n\n<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\":\"a\"}}\n</tool_call>"#,
        r#"<tool_result name=\"read_file\">\ndone\n</tool_result>"#,
    ] {
        assert!(body.contains(sent), "{body}");
    }
    assert!(!body.contains("\"tool_calls\""), "{body}");
}

#[tokio::test]
async fn a_request_that_forbids_calls_is_sent_again_without_reading_any() {
    let server =
        ModelServer::start([refusal(refusals()[0]), ScriptedReply::new().text(CALL).into()]).await;
    let mut talk = chat(&server, ToolCallFormat::Native);
    talk.tool_choice = ToolChoice::None;
    assert_eq!(outline(&talk.ask().await.reply.unwrap()), format!("{CALL:?}"));
}

#[tokio::test]
async fn a_refusal_of_the_text_too_is_an_error_and_not_repeated() {
    let server = ModelServer::start([refusal(refusals()[0]), refusal(refusals()[0])]).await;
    let mut talk = chat(&server, ToolCallFormat::Native);
    let error = talk.ask().await.error();
    assert!(error.message.contains("does not support tools"), "{error}");
    assert_eq!(server.finish().await.unwrap().len(), 2);
}

#[tokio::test]
async fn other_errors_of_a_request_with_tools_are_not_answered_with_text() {
    let body = r#"{"error":{"message":"Invalid schema for function 'read_file': 'oneOf' is not supported","type":"invalid_request_error"}}"#;
    let server = ModelServer::start([refusal((400, body))]).await;
    let outcome = chat(&server, ToolCallFormat::Native).ask().await;
    assert_eq!(outcome.warnings(), Vec::<&str>::new());
    assert!(outcome.error().message.contains("oneOf"));
    assert_eq!(server.finish().await.unwrap().len(), 1);
}
