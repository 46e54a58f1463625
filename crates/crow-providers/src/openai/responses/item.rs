//! Content of output items, and their conversion to blocks.

use crow_core::message::{CallArguments, ReplyBlock, ReplyContent, ToolCall};
use serde_json::{Value, json};

use crate::openai::call_ids::ReplyIds;

/// Kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    /// Text or a refusal.
    Message,
    /// Reasoning.
    Reasoning,
    /// A call of one of our tools.
    Call,
    /// An item that was not requested: of a tool of the provider's own.
    Other,
}

impl ItemKind {
    pub(super) fn of_item(item: &Value) -> Self {
        match text(item, "type") {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "function_call" => Self::Call,
            _ => Self::Other,
        }
    }
}

/// Returns true if the item is reasoning.
pub(super) fn is_reasoning(item: &Value) -> bool {
    ItemKind::of_item(item) == ItemKind::Reasoning
}

/// Returns true if a native item is of use to a stateless server: reasoning is if it contains its content, encrypted
/// or, from open models, in the clear.
pub(super) fn is_resendable(item: &Value) -> bool {
    !is_reasoning(item)
        || !text(item, "encrypted_content").is_empty()
        || !list(item, "content").is_empty()
}

/// Returns true if a message item contains a refusal.
pub(super) fn is_refusal(item: &Value) -> bool {
    list(item, "content").iter().any(|part| text(part, "type") == "refusal")
}

/// Returns the visible text of an item: the text of a message, or the readable part of reasoning.
pub(super) fn visible_text(item: &Value, kind: ItemKind) -> String {
    match kind {
        ItemKind::Message => list(item, "content")
            .iter()
            .map(|part| {
                if text(part, "type") == "refusal" {
                    text(part, "refusal")
                } else {
                    text(part, "text")
                }
            })
            .collect(),
        ItemKind::Reasoning => {
            let summary: Vec<&str> =
                list(item, "summary").iter().map(|part| text(part, "text")).collect();
            if summary.is_empty() {
                list(item, "content").iter().map(|part| text(part, "text")).collect()
            } else {
                summary.join("\n\n")
            }
        }
        ItemKind::Call | ItemKind::Other => String::new(),
    }
}

/// Converts a complete item to a block that contains it.
pub(super) fn into_block(mut item: Value, kind: ItemKind, ids: &mut ReplyIds) -> ReplyBlock {
    let content = match kind {
        ItemKind::Message => ReplyContent::Text { text: visible_text(&item, kind) },
        ItemKind::Reasoning => {
            let text = visible_text(&item, kind);
            if text.is_empty() { ReplyContent::Opaque } else { ReplyContent::Thinking { text } }
        }
        ItemKind::Call => {
            let call = call(&item, ids);
            if let Some(fields) = item.as_object_mut() {
                fields.insert("call_id".to_owned(), json!(call.id));
            }
            ReplyContent::Call(call)
        }
        ItemKind::Other => ReplyContent::Opaque,
    };
    ReplyBlock::with_native(content, item)
}

/// Parses a call.
pub(super) fn call(item: &Value, ids: &mut ReplyIds) -> ToolCall {
    let arguments = match item.get("arguments") {
        Some(Value::String(text)) => CallArguments::parse(text),
        Some(Value::Null) | None => CallArguments::parse(""),
        Some(value) => CallArguments::Json(value.clone()),
    };
    ToolCall {
        id: ids.assign(Some(text(item, "call_id"))),
        name: text(item, "name").to_owned(),
        arguments,
    }
}

pub(super) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
