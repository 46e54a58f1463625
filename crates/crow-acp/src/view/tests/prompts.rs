use std::path::Path;

use agent_client_protocol::v1::schema::ContentBlock;
use crow_core::message::Block;
use serde_json::{Value, json};

use crate::view::{as_command, prompt::PromptFault, prompt_blocks, prompt_error};

/// The first bytes of a PNG file.
const PNG: &str = "iVBORw0KGgo=";

fn prompt(blocks: Value) -> Vec<ContentBlock> {
    serde_json::from_value(blocks).unwrap()
}

fn read(blocks: Value) -> Result<Vec<Block>, PromptFault> {
    prompt_blocks(prompt(blocks), Path::new("/p"))
}

fn text_of(block: &Value) -> String {
    Block::text_of(&read(json!([block])).unwrap())
}

#[test]
fn text_blocks_are_taken_unchanged() {
    let blocks = read(json!([{"type": "text", "text": " a\n"}, {"type": "text", "text": "b"}]));
    assert_eq!(blocks.unwrap(), [Block::text(" a\n"), Block::text("b")]);
}

#[test]
fn links_name_the_path_as_tools_take_it() {
    let table = [
        (json!({"name": "a.rs", "uri": "file:///p/src/a.rs"}), "`src/a.rs`"),
        (
            json!({"name": "x", "uri": "file:///p/a%20b.rs#L3-L9", "description": "odd"}),
            "`a b.rs`, lines 3-9 (x: odd)",
        ),
        (json!({"name": "p", "uri": "file:///p"}), "`.` (p)"),
        (json!({"name": "hosts", "uri": "file:///etc/hosts"}), "`/etc/hosts`"),
        (
            json!({"name": "spec", "uri": "https://example.test/x"}),
            "`https://example.test/x` (spec)",
        ),
    ];
    for (mut link, expected) in table {
        link["type"] = json!("resource_link");
        assert_eq!(text_of(&link), expected);
    }
}

#[test]
fn files_are_named_within_the_text_and_attachments_follow_it() {
    let resource = json!({"uri": "file:///p/a.rs", "text": "fn a() {} // ```\n"});
    let blocks = read(json!([
        {"type": "text", "text": "Make"},
        {"type": "resource", "resource": resource},
        {"type": "text", "text": "like "},
        {"type": "resource_link", "name": "b.rs", "uri": "file:///p/b.rs"},
        {"type": "text", "text": "."},
    ]));
    let expected = [
        Block::text("Make `a.rs` like `b.rs`."),
        Block::text("The user attached `a.rs`:\n````rs\nfn a() {} // ```\n````"),
    ];
    assert_eq!(blocks.unwrap(), expected);
}

#[test]
fn a_huge_embedded_text_is_cut_in_the_middle() {
    let resource = json!({"uri": "file:///p/a", "text": "x".repeat(3_000_000)});
    let text = text_of(&json!({"type": "resource", "resource": resource}));
    assert!(text.len() < 300_000 && text.contains("bytes left out"));
}

#[test]
fn pictures_are_taken_also_when_they_are_embedded() {
    let image = json!({"type": "image", "mimeType": "image/png", "data": PNG});
    let resource = json!({"uri": "file:///a.png", "mimeType": "image/png", "blob": PNG});
    let blocks = read(json!([image, {"type": "resource", "resource": resource}])).unwrap();
    let images = blocks.iter().filter(|block| matches!(block, Block::Image(_)));
    assert_eq!((images.count(), blocks.len()), (2, 3));
}

#[test]
fn a_picture_is_labelled_by_its_content_and_not_by_its_client() {
    let table = [
        (PNG, "image/png"),
        ("/9j/4A==", "image/jpeg"),
        ("R0lGODlh", "image/gif"),
        ("UklGRgAAAABXRUJQ", "image/webp"),
    ];
    for (data, expected) in table {
        for label in ["image/png", "image/jpeg", "image/gif", "image/webp"] {
            let image = json!({"type": "image", "mimeType": label, "data": data});
            let blob = json!({"uri": "file:///a", "mimeType": label, "blob": data});
            let blocks = read(json!([image, {"type": "resource", "resource": blob}])).unwrap();
            let labels: Vec<&str> = blocks
                .iter()
                .filter_map(|block| match block {
                    Block::Image(image) => Some(image.media_type.as_str()),
                    Block::Text { .. } => None,
                })
                .collect();
            assert_eq!(labels, [expected, expected]);
        }
    }
}

#[test]
fn unsupported_prompts_are_refused_with_the_reason() {
    let image = |media_type: &str, data: &str| json!({"type": "image", "mimeType": media_type, "data": data});
    let table = [
        (json!([]), "the prompt is empty"),
        (json!([{"type": "text", "text": " \n"}]), "the prompt is empty"),
        (
            json!([{"type": "audio", "mimeType": "audio/wav", "data": "aGk="}]),
            "audio is not supported",
        ),
        (json!([image("image/svg+xml", "aGk=")]), "image/svg+xml are not supported"),
        (json!([image("image/png", "not base64")]), "is not base64"),
        (json!([image("image/png", "")]), "is not base64"),
        (json!([image("image/png", "aGk=")]), "labelled image/png is neither PNG"),
        (json!([image("image/png", &"A".repeat(12_000_000))]), "12000000 bytes as base64"),
        (json!([{"type": "text", "text": "x".repeat(5_000_000)}]), "5000000 bytes of text"),
        (
            json!([{"type": "resource", "resource": {"uri": "file:///a.bin", "blob": "aGk="}}]),
            "file:///a.bin is embedded as bytes",
        ),
    ];
    for (blocks, expected) in table {
        let fault = read(blocks).unwrap_err();
        assert!(fault.to_string().contains(expected), "{fault}");
        let error = prompt_error(&fault);
        assert_eq!(i32::from(error.code), -32602);
    }
}

#[test]
fn three_megabytes_of_text_are_taken() {
    assert!(read(json!([{"type": "text", "text": "x".repeat(3_000_000)}])).is_ok());
}

#[test]
fn a_slash_begins_a_command() {
    let command = |text: &str| as_command(&prompt(json!([{"type": "text", "text": text}])));
    let pair = |name: &str, argument: &str| Some((name.to_owned(), argument.to_owned()));
    assert_eq!(command("/undo"), pair("undo", ""));
    assert_eq!(command(" /model p/m \n"), pair("model", "p/m"));
    assert_eq!(command("/review\nall of it\nnow"), pair("review", "all of it\nnow"));
    assert_eq!(command("/usr/bin/x fails"), None);
    assert_eq!(command("/"), None);
    assert_eq!(command("a /undo"), None);
    let link = json!({"type": "resource_link", "name": "a", "uri": "file:///p/a"});
    let linked = json!([{"type": "text", "text": "/review "}, link]);
    assert_eq!(as_command(&prompt(linked)), pair("review", "/p/a"));
    let mixed = json!([{"type": "text", "text": "/undo"}, {"type": "image", "mimeType": "image/png", "data": "aGk="}]);
    assert_eq!(as_command(&prompt(mixed)), None);
}
