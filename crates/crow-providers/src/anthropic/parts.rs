//! Blocks of user messages and tool results.

use crow_core::message::{Block, Image, ResultMessage};
use serde_json::{Value, json};

use crate::placeholders::{EMPTY_OUTPUT, IMAGE_OMITTED};

/// Support for images. Without it, a text replaces each image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vision {
    Yes,
    No,
}

/// Returns a text block, unless the text is blank: the service refuses those.
pub(super) fn text(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

/// Returns the blocks of a user message.
pub(super) fn blocks(content: &[Block], vision: Vision) -> Vec<Value> {
    let one = |block: &Block| match block {
        Block::Text { text: words } => text(words),
        Block::Image(image) => Some(picture(image, vision)),
    };
    content.iter().filter_map(one).collect()
}

/// Returns the blocks for all results of a reply. Content that is not allowed inside a result follows after them.
pub(super) fn results<'a>(
    results: impl Iterator<Item = (&'a str, &'a ResultMessage)>,
    vision: Vision,
) -> Vec<Value> {
    let mut blocks = Vec::new();
    let mut trailing = Vec::new();
    for (id, result) in results {
        let mut content = Vec::new();
        for block in &result.content {
            match block {
                Block::Text { text: words } => content.extend(text(words)),
                // The result of a failed call may contain text only.
                Block::Image(image) if result.is_error && vision == Vision::Yes => {
                    trailing.push(picture(image, vision));
                }
                Block::Image(image) => content.push(picture(image, vision)),
            }
        }
        if content.is_empty() {
            content.extend(text(EMPTY_OUTPUT));
        }
        let mut block = json!({"type": "tool_result", "tool_use_id": id, "content": content});
        if let (true, Some(fields)) = (result.is_error, block.as_object_mut()) {
            fields.insert("is_error".to_owned(), Value::Bool(true));
        }
        blocks.push(block);
    }
    blocks.append(&mut trailing);
    blocks
}

fn picture(image: &Image, vision: Vision) -> Value {
    match vision {
        Vision::Yes => json!({
            "type": "image",
            "source": {"type": "base64", "media_type": image.media_type, "data": image.data},
        }),
        Vision::No => json!({"type": "text", "text": IMAGE_OMITTED}),
    }
}
