use crow_core::{
    ids::{CallId, MessageId, ReplyId, SessionId},
    message::{AssistantMessage, CallArguments, ResultMessage, ResultsMessage, ToolCall},
    model::{ModelConfig, Provider as _, StopReason, ToolChoice},
};
use futures_util::StreamExt as _;

use super::*;

/// The recording of the module's documentation.
const DEMO: &str = r#"{
  "format": "crow-replay",
  "version": 1,
  "model": "claude-sonnet-5-5",
  "pace_ms": 15,
  "replies": [
    {
      "blocks": [
        { "thinking": "First the test." },
        { "text": "I run\nthe tests. " },
        { "call": { "id": "call_1", "name": "bash", "arguments": { "command": "cargo test" } } },
        { "call": { "name": "list_directory" } }
      ],
      "usage": { "input_tokens": 1200, "output_tokens": 40 }
    },
    { "expect": "1 failed", "blocks": [{ "text": "One test fails." }], "stop": "max_tokens" }
  ]
}"#;

fn conversation() -> Box<dyn Conversation> {
    let provider = ReplayProvider::from_json(DEMO).unwrap().with_pace(Duration::ZERO);
    provider.conversation(&provider.model(), &SessionId::new("s"))
}

fn assistant() -> Arc<Message> {
    Arc::new(Message::Assistant(AssistantMessage {
        id: MessageId::new("1"),
        reply_id: ReplyId::new("1"),
        origin: Origin {
            dialect: String::new(),
            provider: String::new(),
            base_url: String::new(),
            model: String::new(),
        },
        blocks: Vec::new(),
    }))
}

fn results(text: &str) -> Arc<Message> {
    let result = ResultMessage {
        call_id: CallId::new("call_1"),
        tool: "bash".to_owned(),
        content: vec![Block::text(text)],
        is_error: false,
    };
    Arc::new(Message::Results(ResultsMessage { id: MessageId::new("2"), results: vec![result] }))
}

async fn ask(conversation: &mut dyn Conversation, messages: &[Arc<Message>]) -> Vec<ReplayItem> {
    let config = ModelConfig::default();
    let request = ModelRequest {
        system: "",
        tools: &[],
        messages,
        config: &config,
        tool_choice: ToolChoice::Auto,
    };
    conversation.stream(request).collect().await
}

fn refusal(items: &[ReplayItem]) -> &str {
    match items {
        [Err(error)] => &error.message,
        other => panic!("not one error: {other:?}"),
    }
}

#[tokio::test]
async fn a_reply_is_streamed_by_words_and_then_completed() {
    let items = ask(&mut *conversation(), &[]).await;
    let events: Vec<ModelEvent> = items.into_iter().map(Result::unwrap).collect();
    let (last, shown) = events.split_last().unwrap();
    let text = |text: &str| ModelEvent::TextDelta(text.to_owned());
    let thinking = |text: &str| ModelEvent::ThinkingDelta(text.to_owned());
    let call = |name: &str| ModelEvent::CallStarted { name: name.to_owned() };
    assert_eq!(
        shown,
        [
            thinking("First "),
            thinking("the "),
            thinking("test."),
            text("I "),
            text("run\n"),
            text("the "),
            text("tests. "),
            call("bash"),
            call("list_directory"),
        ]
    );
    let ModelEvent::Completed(reply) = last else { panic!("{last:?}") };
    assert_eq!((reply.stop, reply.usage.input_tokens), (StopReason::ToolUse, 1200));
    assert_eq!(reply.origin.model, "claude-sonnet-5-5");
    let calls: Vec<ToolCall> = reply.calls().cloned().collect();
    let arguments = serde_json::json!({ "command": "cargo test" });
    assert_eq!(
        calls,
        [
            ToolCall {
                id: CallId::new("call_1"),
                name: "bash".to_owned(),
                arguments: CallArguments::Json(arguments),
            },
            ToolCall {
                id: CallId::new("replay_1_4"),
                name: "list_directory".to_owned(),
                arguments: CallArguments::parse("{}"),
            },
        ]
    );
}

#[tokio::test]
async fn the_next_request_gets_the_next_reply() {
    let mut conversation = conversation();
    ask(&mut *conversation, &[]).await;
    let items = ask(&mut *conversation, &[assistant(), results("test: 1 failed\n")]).await;
    let Some(Ok(ModelEvent::Completed(reply))) = items.last() else { panic!("{items:?}") };
    assert_eq!(reply.stop, StopReason::MaxTokens);
    let items = ask(&mut *conversation, &[]).await;
    let expected = "the recording does not fit: it has 2 replies and was asked for reply 3";
    assert_eq!(refusal(&items), expected);
}

#[tokio::test]
async fn a_resumed_session_continues_with_its_next_reply() {
    let items = ask(&mut *conversation(), &[assistant(), results("1 failed")]).await;
    assert!(matches!(items.last(), Some(Ok(ModelEvent::Completed(_)))), "{items:?}");
}

#[tokio::test]
async fn unexpected_results_are_an_error() {
    let items = ask(&mut *conversation(), &[assistant(), results("all passed")]).await;
    assert_eq!(
        refusal(&items),
        "the recording does not fit: reply 2 expects \"1 failed\" in the results before it, which say \"all passed\""
    );
    let items = ask(&mut *conversation(), &[assistant(), results(&"ä".repeat(500))]).await;
    assert!(refusal(&items).ends_with("ää…\""), "{items:?}");
}

#[tokio::test(start_paused = true)]
async fn deltas_come_at_the_recorded_pace() {
    let provider = ReplayProvider::from_json(DEMO).unwrap();
    let mut conversation = provider.conversation(&provider.model(), &SessionId::new("s"));
    let began = tokio::time::Instant::now();
    let items = ask(&mut *conversation, &[]).await;
    assert_eq!(items.len(), 10);
    assert_eq!(began.elapsed(), Duration::from_millis(150));
}

#[test]
fn what_is_no_recording_is_refused_with_the_reason() {
    let mut report = Vec::new();
    for text in [
        "",
        "{}",
        r#"{"format":"other","version":1,"replies":[]}"#,
        r#"{"format":"crow-replay","version":2,"novel":true}"#,
        r#"{"format":"crow-replay","version":1,"replies":[]}"#,
        r#"{"format":"crow-replay","version":1,"replies":[{}]}"#,
        r#"{"format":"crow-replay","version":1,"replies":[{"blocks":[{"txt":"x"}]}]}"#,
        r#"{"format":"crow-replay","version":1,"replies":[{"blocks":[],"stop":"never"}]}"#,
        r#"{"format":"crow-replay","version":1,"replies":[{"blocks":[{"call":{"name":"x","arguments":"y"}}]}]}"#,
        "{\n\"format\":\"crow-replay\",\"version\":1,\n\"repls\":[]}",
    ] {
        let error = ReplayProvider::from_json(text).unwrap_err();
        report.push(format!("{text}\n  {error}"));
    }
    insta::assert_snapshot!(report.join("\n"));
}
