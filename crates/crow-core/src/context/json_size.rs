//! Sizes of message contents in the JSON of a request. All wire formats are JSON, so a content has the same size in each;
//! only the surrounding field names and ids differ.

use serde_json::Value;

use crate::message::{Block, CallArguments, Image, ReplyBlock, ReplyContent};

/// Returns the length of a text inside a JSON string, without its quotes, in bytes.
pub fn json_length(text: &str) -> u64 {
    let length = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(length).sum()
}

/// Returns the length of blocks in a request, in bytes.
pub fn blocks_bytes(blocks: &[Block]) -> u64 {
    let of_block = |block: &Block| match block {
        Block::Text { text } => json_length(text),
        Block::Image(Image { data, .. }) => data.len() as u64,
    };
    blocks.iter().map(of_block).sum()
}

/// Returns the length of a block of a reply in a later request, in bytes.
pub fn reply_block_bytes(block: &ReplyBlock) -> u64 {
    match &block.content {
        ReplyContent::Text { text } => json_length(text),
        // Reasoning is sent back as the provider gave it, signed or encrypted, or not at all. The item may be kept
        // without the readable text, which is put into it again.
        ReplyContent::Thinking { text } => block.native_item().map_or(0, |item| {
            let item = item.to_string();
            let is_contained = serde_json::to_string(text).is_ok_and(|text| item.contains(&text));
            item.len() as u64 + if is_contained { 0 } else { json_length(text) }
        }),
        ReplyContent::Opaque => block.native_item().map_or(0, value_bytes),
        ReplyContent::Call(call) => {
            let arguments = match &call.arguments {
                CallArguments::Json(value) => value_bytes(value),
                CallArguments::Malformed(text) => json_length(text),
            };
            json_length(&call.name) + arguments
        }
    }
}

fn value_bytes(value: &Value) -> u64 {
    value.to_string().len() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_length_of_a_text_is_that_of_its_json_string(text in any::<String>()) {
            let written = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(json_length(&text), written.len() as u64 - 2);
        }
    }
}
