//! Fast path for the most frequent event, a delta of an item: it is parsed without building a JSON tree.

use std::borrow::Cow;

use serde::Deserialize;

use super::{item::ItemKind, output::ReasoningSource};

/// Delta of an item: of its text, its reasoning or its arguments.
#[derive(Debug, Deserialize)]
pub(super) struct ItemDelta<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) item_id: Option<Cow<'a, str>>,
    pub(super) output_index: Option<u64>,
    #[serde(borrow, rename = "delta")]
    pub(super) text: Cow<'a, str>,
}

/// Returns the kind of item that a delta of this name extends, and its source; none for other events.
pub(super) fn subject(event: &str) -> Option<(ItemKind, ReasoningSource)> {
    match event {
        "response.output_text.delta" | "response.refusal.delta" => {
            Some((ItemKind::Message, ReasoningSource::Content))
        }
        "response.reasoning_summary_text.delta" => {
            Some((ItemKind::Reasoning, ReasoningSource::Summary))
        }
        "response.reasoning_text.delta" => Some((ItemKind::Reasoning, ReasoningSource::Content)),
        "response.function_call_arguments.delta" => {
            Some((ItemKind::Call, ReasoningSource::Content))
        }
        _ => None,
    }
}
