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

fn talk(server: &ModelServer, dialect: (Dialect, WireDialect), tool_calls: ToolCallFormat) -> Talk {
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
    let provider = TextCallProvider::new(Arc::new(provider));
    Talk::of(&provider, &ModelInfo { tool_calls, ..model("test-model") })
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

#[tokio::test]
async fn the_refusal_of_tools_names_the_setting_that_helps() {
    for message in [
        "registry.ollama.ai/library/gemma3:1b does not support tools",
        "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
    ] {
        let error = json!({"error": {"message": message, "type": "api_error"}});
        let server = ModelServer::start([ScriptStep::Http {
            status: 400,
            headers: Vec::new(),
            body: error.to_string().into(),
        }])
        .await;
        let error = chat(&server, ToolCallFormat::Native).ask().await.error();
        assert!(error.message.contains(message), "{error}");
        assert!(error.message.contains("tool_calls = \"text\""), "{error}");
    }
}
