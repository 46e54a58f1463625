//! Decoding of scripted replies.

use crow_core::{
    message::{CallArguments, ReplyContent},
    model::{ModelReply, StopReason, Thinking, ToolChoice},
    usage::TokenUsage,
};
use crow_providers::Dialect;
use crow_testkit::{ModelServer, ReplyUsage, ScriptedReply, ScriptedStop};
use serde_json::json;

use crate::support::{DIALECTS, KEY, Talk};

fn texts(reply: &ModelReply) -> String {
    let text = |content: &ReplyContent| match content {
        ReplyContent::Text { text } => Some(text.clone()),
        ReplyContent::Thinking { .. } | ReplyContent::Call(_) | ReplyContent::Opaque => None,
    };
    reply.blocks.iter().filter_map(|block| text(&block.content)).collect()
}

fn thoughts(reply: &ModelReply) -> String {
    let text = |content: &ReplyContent| match content {
        ReplyContent::Thinking { text } => Some(text.clone()),
        ReplyContent::Text { .. } | ReplyContent::Call(_) | ReplyContent::Opaque => None,
    };
    reply.blocks.iter().filter_map(|block| text(&block.content)).collect()
}

#[tokio::test]
async fn a_text_arrives_in_deltas_and_complete() {
    for dialect in DIALECTS {
        let expected = "Grüße, 🐦! ".repeat(20);
        let server = ModelServer::start([ScriptedReply::new().text(&expected)]).await;
        let outcome = Talk::with(&server, dialect).ask().await;
        assert_eq!(outcome.streamed_text(), expected);
        let reply = outcome.reply.unwrap();
        assert_eq!((texts(&reply), reply.stop), (expected, StopReason::EndTurn));
        assert_eq!(reply.origin.dialect, dialect.0.name());
        assert!(reply.response_id.is_some());
        server.assert_clean();
    }
}

#[tokio::test]
async fn a_key_that_a_server_repeats_in_ids_and_names_is_removed() {
    for dialect in DIALECTS {
        let name = format!("read_{KEY}");
        let reply = ScriptedReply::new().call(format!("call_{KEY}"), &name, &json!({}));
        let server = ModelServer::start([reply]).await;
        let outcome = Talk::with(&server, dialect).ask().await;
        assert_eq!(outcome.started(), ["read_***"], "{dialect:?}");
        let reply = outcome.reply.unwrap();
        let call = reply.calls().next().unwrap();
        assert_eq!(call.name, "read_***");
        let stored = serde_json::to_string(&reply.blocks).unwrap();
        assert!(!stored.contains(KEY), "{stored}");
    }
}

#[tokio::test]
async fn parallel_calls_keep_order_ids_and_arguments() {
    for dialect in DIALECTS {
        let reply = ScriptedReply::new()
            .text("I look.")
            .call("call_1", "read_file", &json!({"path": "ä", "n": [1, 2.5, null]}))
            .call("call_2", "write_file", &json!({}));
        let server = ModelServer::start([reply]).await;
        let outcome = Talk::with(&server, dialect).ask().await;
        assert_eq!(outcome.started(), ["read_file", "write_file"]);
        let reply = outcome.reply.unwrap();
        assert_eq!(reply.stop, StopReason::ToolUse);
        let calls: Vec<_> = reply.calls().collect();
        assert_eq!(calls[0].id.as_str(), "call_1");
        assert_eq!(
            calls[0].arguments,
            CallArguments::Json(json!({"path": "ä", "n": [1, 2.5, null]}))
        );
        assert_eq!((calls[1].id.as_str(), calls[1].name.as_str()), ("call_2", "write_file"));
        assert_eq!(calls[1].arguments, CallArguments::Json(json!({})));
        server.assert_clean();
    }
}

#[tokio::test]
async fn malformed_arguments_are_kept_verbatim() {
    let reply = ScriptedReply::new().raw_call("call_1", "read_file", "{\"path\": ");
    let server = ModelServer::start([reply]).await;
    let mut talk = Talk::with(&server, DIALECTS[0]);
    let reply = talk.ask().await.reply.unwrap();
    let arguments = &reply.calls().next().unwrap().arguments;
    assert_eq!(arguments, &CallArguments::Malformed("{\"path\": ".to_owned()));
    server.assert_clean();
}

#[tokio::test]
async fn a_call_without_an_id_gets_one() {
    for dialect in DIALECTS {
        let arguments = json!({"path": "a"});
        let reply = ScriptedReply::new().call("", "read_file", &arguments).call(
            "",
            "read_file",
            &arguments,
        );
        let server = ModelServer::start([reply, ScriptedReply::new().text("Fine.")]).await;
        let mut talk = Talk::with(&server, dialect);
        let reply = talk.step().await;
        let ids: Vec<_> = reply.calls().map(|call| call.id.as_str()).collect();
        assert!(!ids[0].is_empty() && !ids[1].is_empty() && ids[0] != ids[1], "{ids:?}");
        talk.step().await;
        server.assert_clean();
    }
}

#[tokio::test]
async fn reasoning_is_sent_back_in_its_place_over_many_steps() {
    for dialect in DIALECTS {
        let call = |n: usize| {
            ScriptedReply::new()
                .thinking(format!("First {n}."), format!("signature-a-{n}"))
                .text("Now.")
                .thinking(format!("Second {n}."), format!("signature-b-{n}"))
                .call(format!("call_{n}"), "read_file", &json!({"path": n.to_string()}))
        };
        let script = vec![
            call(1),
            call(2).redacted("only-for-the-vendor").call("call_2b", "write_file", &json!({})),
            ScriptedReply::new().thinking("Last.", "signature-c").text("Done."),
            call(3),
            ScriptedReply::new().text("Bye."),
        ];
        let server = ModelServer::start(script).await;
        let mut talk = Talk::with(&server, dialect);
        let first = talk.step().await;
        let is_shown = !matches!(dialect.0, Dialect::OpenAiChat(_));
        assert_eq!(thoughts(&first), if is_shown { "First 1.Second 1." } else { "" });
        for _ in 0..4 {
            talk.step().await;
        }
        server.assert_clean();
    }
}

#[tokio::test]
async fn usage_counts_all_input_tokens_and_their_parts() {
    let usage =
        ReplyUsage { input: 10, output: 50, reasoning: 0, cache_read: 100, cache_write: 20 };
    let server = ModelServer::start([ScriptedReply::new().text("Hi").with_usage(usage)]).await;
    let reply = Talk::with(&server, DIALECTS[0]).ask().await.reply.unwrap();
    let expected = TokenUsage {
        input_tokens: 130,
        output_tokens: 50,
        reasoning_tokens: None,
        cache_read_tokens: 100,
        cache_write_tokens: 20,
        cache_write_1h_tokens: 0,
    };
    assert_eq!(reply.usage, expected);

    let usage =
        ReplyUsage { input: 10, output: 50, reasoning: 30, cache_read: 100, cache_write: 0 };
    let server = ModelServer::start([ScriptedReply::new().text("Hi").with_usage(usage)]).await;
    let reply = Talk::with(&server, DIALECTS[1]).ask().await.reply.unwrap();
    let expected = TokenUsage {
        input_tokens: 110,
        output_tokens: 50,
        reasoning_tokens: Some(30),
        cache_read_tokens: 100,
        cache_write_tokens: 0,
        cache_write_1h_tokens: 0,
    };
    assert_eq!(reply.usage, expected);
}

#[tokio::test]
async fn the_stop_reason_is_decoded() {
    for dialect in DIALECTS {
        for (stop, expected) in [
            (ScriptedStop::EndTurn, StopReason::EndTurn),
            (ScriptedStop::MaxTokens, StopReason::MaxTokens),
            (ScriptedStop::Refusal, StopReason::Refusal),
            (ScriptedStop::ContentFilter, StopReason::Refusal),
        ] {
            let server =
                ModelServer::start([ScriptedReply::new().text("Hm").with_stop(stop)]).await;
            let reply = Talk::with(&server, dialect).ask().await.reply.unwrap();
            assert_eq!(reply.stop, expected, "{dialect:?}");
        }
    }
}

#[tokio::test]
async fn an_empty_reply_is_complete() {
    for dialect in DIALECTS {
        let server =
            ModelServer::start([ScriptedReply::new(), ScriptedReply::new().text("Hi")]).await;
        let mut talk = Talk::with(&server, dialect);
        assert!(talk.step().await.blocks.is_empty());
        talk.step().await;
        server.assert_clean();
    }
}

#[tokio::test]
async fn tools_stay_in_the_request_when_they_may_not_be_called() {
    for (dialect, pointer, expected) in [
        (DIALECTS[0], "/tool_choice/type", "none"),
        (DIALECTS[1], "/toolConfig/functionCallingConfig/mode", "NONE"),
    ] {
        let server = ModelServer::start([ScriptedReply::new().text("Hi")]).await;
        let mut talk = Talk::with(&server, dialect);
        talk.tool_choice = ToolChoice::None;
        talk.step().await;
        let requests = server.finish().await.unwrap();
        assert_eq!(requests[0].at(pointer), expected);
        assert!(requests[0].at("/tools").is_array());
    }
}

#[tokio::test]
async fn every_dialect_can_require_a_call_of_any_tool_or_of_one() {
    let forms = [
        ("/tool_choice", json!({"type": "any"}), json!({"type": "tool", "name": "read_file"})),
        (
            "/toolConfig/functionCallingConfig",
            json!({"mode": "ANY"}),
            json!({"mode": "ANY", "allowedFunctionNames": ["read_file"]}),
        ),
        ("/tool_choice", json!("required"), json!({"type": "function", "name": "read_file"})),
        (
            "/tool_choice",
            json!("required"),
            json!({"type": "function", "function": {"name": "read_file"}}),
        ),
    ];
    for (dialect, (pointer, any, one)) in DIALECTS.into_iter().zip(forms) {
        for (choice, expected) in [(ToolChoice::Any, any), (ToolChoice::Tool("read_file"), one)] {
            let server = ModelServer::start([ScriptedReply::new().text("Hi")]).await;
            let mut talk = Talk::with(&server, dialect);
            talk.tool_choice = choice;
            talk.config.thinking = Some(Thinking::High);
            talk.step().await;
            let requests = server.finish().await.unwrap();
            assert_eq!(*requests[0].at(pointer), expected, "{dialect:?}");
            if dialect == DIALECTS[0] {
                assert!(requests[0].body.get("thinking").is_none(), "it would be refused");
            }
        }
    }
}
