use crow_core::{
    message::{CallArguments, ReplyBlock},
    model::{Abilities, ModelConfig, Thinking},
};
use proptest::prelude::{Just, Strategy as _, prop_oneof};

use super::*;
use crate::openai::testing::{self, PLAIN, THINKS};

fn codec(model: &str, abilities: Abilities, variant: ChatVariant) -> ChatCodec {
    ChatCodec::new(testing::route(model, abilities), variant)
}

/// Returns a conversation with every kind of content.
fn history(origin: &str) -> Vec<Arc<Message>> {
    let path = CallArguments::Json(json!({ "path": "a.rs" }));
    let cut = CallArguments::Malformed("{\"path\": tru".to_owned());
    let thinking = ReplyContent::Thinking { text: "Hm.".to_owned() };
    let thinking = ReplyBlock::with_native(thinking, json!({ "reasoning_content": "Hm." }));
    let mut failed = testing::result("call_2", vec![Block::text("invalid arguments")]);
    failed.is_error = true;
    vec![
        testing::user(
            "1",
            vec![Block::text("# AGENTS.md"), Block::text(" "), Block::text("Fix it")],
        ),
        testing::assistant(
            "2",
            testing::origin(origin),
            vec![
                thinking,
                testing::text("I look."),
                ReplyBlock::without_native_item(testing::call("call_1", path)),
                ReplyBlock::without_native_item(testing::call("call_2", cut)),
            ],
        ),
        testing::results(
            "3",
            vec![
                testing::result("call_1", vec![Block::text("fn main"), testing::picture()]),
                failed,
            ],
        ),
        testing::assistant("4", testing::origin(origin), vec![testing::text("Done.")]),
        testing::user("5", vec![Block::text("And this?"), testing::picture()]),
    ]
}

#[test]
fn a_whole_conversation_becomes_a_request_of_openai() {
    let mut codec = codec("gpt-5", THINKS, ChatVariant::OPENAI);
    let config = ModelConfig {
        temperature: Some(0.7),
        seed: Some(7),
        max_tokens: Some(900),
        thinking: Some(Thinking::Low),
    };
    let body = testing::body(&mut codec, "Be brief.", &history("other"), &config, ToolChoice::None);
    insta::assert_json_snapshot!(body);
}

#[test]
fn other_servers_get_what_all_understand_and_their_reasoning_back() {
    let mut codec = codec("m", PLAIN, ChatVariant::COMPATIBLE);
    let config = ModelConfig {
        temperature: Some(0.7),
        seed: Some(7),
        max_tokens: Some(900),
        thinking: None,
    };
    let body = testing::body(&mut codec, "", &history("m"), &config, ToolChoice::Auto);
    insta::assert_json_snapshot!(body);
}

#[test]
fn thinking_uses_the_field_and_values_of_the_server() {
    for (variant, thinking, field, expected) in [
        (ChatVariant::OPENAI, Thinking::High, "reasoning_effort", json!("high")),
        (ChatVariant::COMPATIBLE, Thinking::Off, "reasoning_effort", json!("none")),
        (ChatVariant::OPENROUTER, Thinking::Off, "reasoning", json!({ "enabled": false })),
        (ChatVariant::OPENROUTER, Thinking::Medium, "reasoning", json!({ "effort": "medium" })),
        (ChatVariant::OPENROUTER, Thinking::Tokens(9), "reasoning", json!({ "max_tokens": 9 })),
    ] {
        for (abilities, expected) in [(THINKS, Some(&expected)), (PLAIN, None)] {
            let mut codec = codec("m", abilities, variant);
            let config = ModelConfig { thinking: Some(thinking), ..ModelConfig::default() };
            let body = testing::body(&mut codec, "", &history("m"), &config, ToolChoice::Auto);
            assert_eq!(body.get(field), expected, "{variant:?} {thinking:?} {abilities:?}");
        }
    }
}

#[test]
fn a_model_without_tool_support_is_sent_no_tools() {
    let abilities = Abilities { tools: false, ..PLAIN };
    let mut codec = codec("m", abilities, ChatVariant::COMPATIBLE);
    let config = ModelConfig::default();
    let body = testing::body(&mut codec, "", &history("m"), &config, ToolChoice::None);
    assert_eq!((body.get("tools"), body.get("tool_choice")), (None, None));
}

#[test]
fn reasoning_details_are_sent_back_complete_and_in_order() {
    let detail = |n: u8| json!({ "type": "reasoning.encrypted", "data": format!("d{n}") });
    let block = |n: u8| {
        ReplyBlock::with_native(ReplyContent::Opaque, json!({ "reasoning_details": [detail(n)] }))
    };
    let blocks = vec![block(1), testing::text("x"), block(2)];
    for (origin, expected) in [("m", Some(json!([detail(1), detail(2)]))), ("other", None)] {
        let mut codec = codec("m", PLAIN, ChatVariant::OPENROUTER);
        let message = testing::assistant("1", testing::origin(origin), blocks.clone());
        let json = codec.encode_message(&message).json.to_vec();
        let sent: Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(sent.get("reasoning_details"), expected.as_ref(), "{origin}");
    }
}

#[test]
fn an_empty_reply_is_omitted() {
    let thinking =
        ReplyBlock::without_native_item(ReplyContent::Thinking { text: "Hm.".to_owned() });
    for message in [
        testing::assistant("1", testing::origin("m"), vec![thinking, testing::text("  ")]),
        testing::assistant("1", testing::origin("m"), Vec::new()),
        testing::results("1", Vec::new()),
    ] {
        let mut codec = codec("m", PLAIN, ChatVariant::COMPATIBLE);
        assert!(codec.encode_message(&message).json.is_empty(), "{message:?}");
        let body = testing::body(
            &mut codec,
            "system",
            &[
                testing::user("0", vec![Block::text("a")]),
                message,
                testing::user("2", vec![Block::text("b")]),
            ],
            &ModelConfig::default(),
            ToolChoice::Auto,
        );
        assert_eq!(body["messages"].as_array().unwrap().len(), 3);
    }
}

#[test]
fn an_empty_user_message_keeps_its_turn() {
    let mut codec = codec("m", PLAIN, ChatVariant::COMPATIBLE);
    let json = codec.encode_message(&testing::user("1", vec![Block::text(" \n")])).json.to_vec();
    let sent: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(sent, json!({ "role": "user", "content": "(empty message)" }));
}

proptest::proptest! {
    /// The provider's cache works only if the beginning of the request stays the same.
    #[test]
    fn a_longer_history_begins_with_the_shorter_one(
        length in 0_usize..5,
        variant in prop_oneof![
            Just(ChatVariant::OPENAI), Just(ChatVariant::OPENROUTER), Just(ChatVariant::COMPATIBLE)
        ].boxed(),
    ) {
        let history = history("m");
        let config = ModelConfig::default();
        let messages = |count: usize| {
            let mut codec = codec("m", THINKS, variant);
            let body = testing::body(&mut codec, "s", &history[..count], &config, ToolChoice::Auto);
            body["messages"].as_array().unwrap().clone()
        };
        let (shorter, longer) = (messages(length), messages(length + 1));
        proptest::prop_assert!(longer.starts_with(&shorter));
    }
}
