//! Reasoning, in the fields in which servers send it and expect it back.

use std::borrow::Cow;

use crow_core::message::ReplyBlock;
use serde_json::{Map, Value, json};

/// `OpenRouter`: a list of items, some of which only the provider can read.
const DETAILS: &str = "reasoning_details";

/// `DeepSeek`, llama.cpp, `vLLM`: plain text.
const CONTENT: &str = "reasoning_content";

/// `OpenRouter` in addition to its list, and newer `vLLM`: plain text.
const PLAIN: &str = "reasoning";

/// Reasoning in a delta.
#[derive(Debug, Default)]
pub(super) struct ReasoningDelta<'a> {
    pub(super) text: Cow<'a, str>,
    field: Option<&'static str>,
    details: &'a [Value],
}

impl<'a> ReasoningDelta<'a> {
    /// Creates a delta in the field that most servers use.
    pub(super) fn of_content(text: Cow<'a, str>) -> Self {
        Self { text, field: Some(CONTENT), details: &[] }
    }

    /// Reads a delta. The same text may be in two fields: it counts once.
    pub(super) fn read(delta: &'a Value) -> Option<Self> {
        let text =
            |name: &str| delta.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let found = text(CONTENT)
            .map(|text| (text, CONTENT))
            .or_else(|| text(PLAIN).map(|text| (text, PLAIN)));
        let details = delta.get(DETAILS).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if found.is_none() && details.is_empty() {
            return None;
        }
        let text = found.map_or_else(|| detail_text(details).into(), |(text, _)| text.into());
        Some(Self { text, field: found.map(|(_, field)| field), details })
    }
}

/// Reasoning that still receives deltas.
#[derive(Debug, Default)]
pub(super) struct OpenReasoning {
    pub(super) text: String,
    field: Option<&'static str>,
    details: Vec<Value>,
}

impl OpenReasoning {
    pub(super) fn push(&mut self, delta: &ReasoningDelta<'_>) {
        self.text.push_str(&delta.text);
        self.field = self.field.or(delta.field);
        for detail in delta.details {
            let is_merged = self.details.last_mut().is_some_and(|last| merge(last, detail));
            if !is_merged {
                self.details.push(detail.clone());
            }
        }
    }

    /// Returns the fields to send back, or `None` if they are empty.
    pub(super) fn native(&self) -> Option<Value> {
        if !self.details.is_empty() {
            return Some(json!({ DETAILS: self.details }));
        }
        let field = self.field.filter(|_| !self.text.is_empty())?;
        Some(json!({ field: self.text }))
    }
}

/// Returns the fields of all reasoning of a reply: texts joined, lists appended.
pub(super) fn request_fields(blocks: &[ReplyBlock]) -> Map<String, Value> {
    let mut fields = Map::new();
    for item in blocks.iter().filter_map(ReplyBlock::native_item) {
        for (name, value) in item.as_object().into_iter().flatten() {
            match (fields.get_mut(name), value) {
                (Some(Value::String(text)), Value::String(more)) => text.push_str(more),
                (Some(Value::Array(list)), Value::Array(more)) => list.extend(more.iter().cloned()),
                _ => {
                    fields.insert(name.clone(), value.clone());
                }
            }
        }
    }
    fields
}

fn detail_text(details: &[Value]) -> String {
    let text = |detail: &'_ Value| {
        let text = ["text", "summary"].iter().find_map(|name| detail.get(name)?.as_str());
        text.unwrap_or_default().to_owned()
    };
    details.iter().map(text).collect()
}

/// Merges a piece into the last item if it continues that; otherwise returns false. Only text is sent in pieces, other
/// items are complete.
fn merge(last: &mut Value, piece: &Value) -> bool {
    let same = |name: &str| last.get(name) == piece.get(name);
    let kind = piece.get("type").and_then(Value::as_str).unwrap_or_default();
    let is_text = matches!(kind, "reasoning.text" | "reasoning.summary");
    if !is_text || !same("type") || !same("index") {
        return false;
    }
    let (Some(last), Some(piece)) = (last.as_object_mut(), piece.as_object()) else {
        return false;
    };
    // Text and signature are appended, other fields are replaced.
    for (name, value) in piece {
        match (name.as_str(), last.get_mut(name), value) {
            (_, _, Value::Null) => {}
            ("text" | "summary" | "signature", Some(Value::String(text)), Value::String(more)) => {
                text.push_str(more);
            }
            _ => {
                last.insert(name.clone(), value.clone());
            }
        }
    }
    true
}
