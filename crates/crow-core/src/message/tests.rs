use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::ids::{CallId, MessageId, ReplyId};

fn text(text: &str) -> ReplyContent {
    ReplyContent::Text { text: text.into() }
}

fn call(id: &str, arguments: CallArguments) -> ReplyContent {
    ReplyContent::Call(ToolCall { id: CallId::new(id), name: "bash".into(), arguments })
}

#[test]
fn a_native_item_is_dropped_as_soon_as_the_content_differs() {
    let arguments = || CallArguments::Json(json!({"command": "ls"}));
    let item = json!({"type": "x", "signature": "s"});
    for (content, changed) in [
        (text("a"), text("b")),
        (text("a"), ReplyContent::Thinking { text: "a".into() }),
        (ReplyContent::Thinking { text: "a".into() }, ReplyContent::Opaque),
        (call("1", arguments()), call("2", arguments())),
        (call("1", arguments()), call("1", CallArguments::Json(json!({"command": "rm"})))),
        (
            call("1", arguments()),
            call("1", CallArguments::Malformed("{\"command\":\"ls\"}".into())),
        ),
    ] {
        let mut block = ReplyBlock::with_native(content.clone(), item.clone());
        assert_eq!(block.native_item(), Some(&item));
        block.content = changed;
        assert_eq!(block.native_item(), None, "{block:?}");
        block.content = content;
        assert_eq!(block.native_item(), Some(&item));
    }
    assert_eq!(ReplyBlock::without_native_item(text("a")).native_item(), None);
}

#[test]
fn a_native_item_survives_json() {
    let item = json!({"signature": "s", "n": 1.5, "z": null, "a": [1, {}]});
    let block = ReplyBlock::with_native(ReplyContent::Opaque, item.clone());
    let json = serde_json::to_string(&block).unwrap();
    let read: ReplyBlock = serde_json::from_str(&json).unwrap();
    assert_eq!(read.native_item(), Some(&item));
    assert_eq!(serde_json::to_string(&read).unwrap(), json);
}

#[test]
fn arguments_are_json_or_the_malformed_text() {
    for (text, arguments) in [
        ("", CallArguments::Json(json!({}))),
        (" \n", CallArguments::Json(json!({}))),
        ("{}", CallArguments::Json(json!({}))),
        (" {\"a\": 1} ", CallArguments::Json(json!({"a": 1}))),
        ("[1]", CallArguments::Json(json!([1]))),
        ("null", CallArguments::Json(Value::Null)),
        ("{\"a\": 1", CallArguments::Malformed("{\"a\": 1".into())),
        ("{'a': 1}", CallArguments::Malformed("{'a': 1}".into())),
    ] {
        assert_eq!(CallArguments::parse(text), arguments, "{text}");
    }
}

#[test]
fn arguments_of_any_form_convert_to_an_object() {
    for (arguments, object) in [
        (CallArguments::Json(json!({"b": 1, "a": 2})), r#"{"b":1,"a":2}"#),
        (CallArguments::Json(json!([1])), r#"{"arguments":[1]}"#),
        (CallArguments::Json(Value::Null), r#"{"arguments":null}"#),
        (CallArguments::Malformed("{".into()), r#"{"malformed_arguments":"{"}"#),
    ] {
        assert_eq!(arguments.to_object().to_string(), object);
    }
}

#[test]
fn calls_come_in_the_order_of_their_blocks() {
    let message = AssistantMessage {
        id: MessageId::new("m"),
        reply_id: ReplyId::new("r"),
        origin: Origin {
            dialect: "chat".into(),
            provider: "p".into(),
            base_url: "u".into(),
            model: "m".into(),
        },
        blocks: [
            call("b", CallArguments::parse("")),
            text("and"),
            ReplyContent::Opaque,
            call("a", CallArguments::parse("")),
        ]
        .map(ReplyBlock::without_native_item)
        .into(),
    };
    let ids: Vec<_> = message.calls().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["b", "a"]);
}

proptest! {
    #[test]
    fn any_arguments_survive_the_log(text in "\\PC{0,30}") {
        let arguments = CallArguments::parse(&text);
        let json = serde_json::to_string(&arguments).unwrap();
        prop_assert_eq!(serde_json::from_str::<CallArguments>(&json).unwrap(), arguments.clone());
        prop_assert!(arguments.to_object().is_object());
    }
}
