use crow_core::model::{Abilities, ModelConfig, Thinking};

use super::*;
use crate::openai::testing::{self, PLAIN, THINKS};

fn codec(model: &str, abilities: Abilities) -> ResponsesCodec {
    ResponsesCodec::new(testing::route(model, abilities))
}

fn reasoning(encrypted: &str) -> ReplyBlock {
    let content = ReplyContent::Thinking { text: "Hm.".to_owned() };
    let item = json!({
        "id": "rs_1", "type": "reasoning", "summary": [{ "type": "summary_text", "text": "Hm." }],
        "encrypted_content": encrypted,
    });
    ReplyBlock::with_native(content, item)
}

fn message(text: &str) -> ReplyBlock {
    let item = json!({
        "id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
        "content": [{ "type": "output_text", "annotations": [], "text": text }],
    });
    ReplyBlock::with_native(ReplyContent::Text { text: text.to_owned() }, item)
}

fn call(id: &str, arguments: CallArguments) -> ReplyBlock {
    let text = match &arguments {
        CallArguments::Json(value) => value.to_string(),
        CallArguments::Malformed(text) => text.clone(),
    };
    let item = json!({
        "id": format!("fc_{id}"), "type": "function_call", "status": "completed", "call_id": id,
        "name": "read_file", "arguments": text,
    });
    ReplyBlock::with_native(testing::call(id, arguments), item)
}

/// Returns a conversation with every kind of content.
fn history(origin: &str) -> Vec<Arc<Message>> {
    let mut failed = testing::result("call_2", vec![Block::text("invalid arguments")]);
    failed.is_error = true;
    vec![
        testing::user("1", vec![Block::text("Fix it"), testing::picture()]),
        testing::assistant(
            "2",
            testing::origin(origin),
            vec![
                reasoning("secret"),
                message("I look."),
                call("call_1", CallArguments::Json(json!({ "path": "a.rs" }))),
                call("call_2", CallArguments::Malformed("{\"path\": tru".to_owned())),
            ],
        ),
        testing::results(
            "3",
            vec![
                testing::result("call_1", vec![Block::text("fn main"), testing::picture()]),
                failed,
            ],
        ),
        testing::assistant("4", testing::origin(origin), vec![message("Done.")]),
    ]
}

fn input(codec: &mut ResponsesCodec, blocks: Vec<ReplyBlock>, origin: &str) -> Vec<Value> {
    let message = testing::assistant("1", testing::origin(origin), blocks);
    let config = ModelConfig::default();
    let body = testing::body(codec, "", &[message], &config, ToolChoice::Auto);
    body["input"].as_array().unwrap().clone()
}

#[test]
fn a_whole_conversation_goes_back_as_it_came() {
    let mut codec = codec("gpt-5", THINKS);
    let config = ModelConfig {
        temperature: Some(0.7),
        seed: Some(7),
        max_tokens: Some(900),
        thinking: Some(Thinking::Medium),
    };
    let body = testing::body(&mut codec, "Be brief.", &history("gpt-5"), &config, ToolChoice::None);
    insta::assert_json_snapshot!(body);
}

#[test]
fn the_conversation_of_another_model_goes_in_our_words() {
    let mut codec = codec("m", PLAIN);
    let config = ModelConfig { temperature: Some(0.7), ..ModelConfig::default() };
    let body = testing::body(&mut codec, "", &history("other"), &config, ToolChoice::Auto);
    insta::assert_json_snapshot!(body);
}

#[test]
fn items_keep_their_ids_only_if_their_reasoning_is_complete() {
    let arguments = || CallArguments::Json(json!({}));
    let changed = ReplyBlock {
        content: ReplyContent::Thinking { text: "changed".to_owned() },
        ..reasoning("secret")
    };
    let open = ReplyBlock::with_native(
        ReplyContent::Thinking { text: "Hm.".to_owned() },
        json!({ "type": "reasoning", "summary": [], "encrypted_content": "",
                "content": [{ "type": "reasoning_text", "text": "Hm." }] }),
    );
    let opaque = ReplyBlock::with_native(
        ReplyContent::Opaque,
        json!({ "type": "reasoning", "summary": [], "encrypted_content": "secret" }),
    );
    for (name, first, keeps_ids) in [
        ("encrypted", reasoning("secret"), true),
        ("encrypted, without a summary", opaque, true),
        ("in the clear, by an open model", open, true),
        ("not encrypted", reasoning(""), false),
        ("changed since", changed, false),
        ("from elsewhere", ReplyBlock::without_native_item(ReplyContent::Opaque), false),
    ] {
        let mut codec = codec("m", THINKS);
        let items = input(&mut codec, vec![first, call("call_1", arguments())], "m");
        let types: Vec<&str> = items.iter().map(|item| item["type"].as_str().unwrap()).collect();
        let expected: &[&str] =
            if keeps_ids { &["reasoning", "function_call"] } else { &["function_call"] };
        assert_eq!(types, expected, "{name}");
        assert_eq!(items.last().unwrap().get("id").is_some(), keeps_ids, "{name}");
    }
}

#[test]
fn reasoning_without_a_following_item_is_omitted() {
    let mut codec = codec("m", THINKS);
    assert_eq!(input(&mut codec, vec![reasoning("secret")], "m"), Vec::<Value>::new());
    let items = input(&mut codec, vec![message("x"), reasoning("secret"), message(" ")], "m");
    assert_eq!(items.len(), 1);
    assert_eq!(items[0]["type"], "message");
}

#[test]
fn encrypted_reasoning_is_requested_only_from_thinking_models() {
    for (abilities, expected) in
        [(THINKS, Some(json!(["reasoning.encrypted_content"]))), (PLAIN, None)]
    {
        let mut codec = codec("m", abilities);
        let config = ModelConfig { thinking: Some(Thinking::Low), ..ModelConfig::default() };
        let body = testing::body(&mut codec, "", &history("m"), &config, ToolChoice::Auto);
        assert_eq!(body.get("include"), expected.as_ref());
        assert_eq!(body.get("reasoning").is_some(), expected.is_some());
        assert_eq!(body["store"], false);
    }
}

#[test]
fn a_longer_history_begins_with_the_shorter_one() {
    let history = history("m");
    let inputs: Vec<Vec<Value>> = (0..=history.len())
        .map(|count| {
            let (mut codec, config) = (codec("m", THINKS), ModelConfig::default());
            let body = testing::body(&mut codec, "s", &history[..count], &config, ToolChoice::Auto);
            body["input"].as_array().unwrap().clone()
        })
        .collect();
    for pair in inputs.windows(2) {
        assert!(pair[1].starts_with(&pair[0]));
    }
}
