//! A reply in progress: text, reasoning and tool calls, each streamed in pieces.
//!
//! Reasoning is received in several fields, and sent back in the one that it was received in.
//!
//! Servers differ in how they identify the call of a piece: an own index for each call, index 0 for all, or none; ids
//! and names in the first piece, in every piece, or not at all. A piece belongs to the last call with its index,
//! without an index to the last call with its id, without both to the last call. It starts another call if there is no
//! such call, if both have an id and the ids differ, or otherwise if it has a name and the arguments of that call are
//! complete.

use std::borrow::Cow;

use crow_core::{
    message::{CallArguments, ReplyBlock, ReplyContent, ToolCall},
    model::ModelEvent,
};
use serde_json::{Map, Value, json};

use crate::openai::reply::ReplyIds;

/// The blocks of a reply in the order of their start.
#[derive(Debug, Default)]
pub(super) struct ChatOpenReply {
    blocks: Vec<ChatOpenBlock>,
}

#[derive(Debug)]
enum ChatOpenBlock {
    Text(String),
    Reasoning(OpenReasoning),
    Call(ChatOpenCall),
}

impl ChatOpenReply {
    pub(super) fn push_text(&mut self, more: &str, out: &mut Vec<ModelEvent>) {
        if more.is_empty() {
            return;
        }
        if let Some(ChatOpenBlock::Text(text)) = self.blocks.last_mut() {
            text.push_str(more);
        } else {
            self.blocks.push(ChatOpenBlock::Text(more.to_owned()));
        }
        out.push(ModelEvent::TextDelta(more.to_owned()));
    }

    pub(super) fn push_reasoning(&mut self, delta: &ReasoningDelta<'_>, out: &mut Vec<ModelEvent>) {
        if let Some(ChatOpenBlock::Reasoning(reasoning)) = self.blocks.last_mut() {
            reasoning.push(delta);
        } else {
            let mut reasoning = OpenReasoning::default();
            reasoning.push(delta);
            self.blocks.push(ChatOpenBlock::Reasoning(reasoning));
        }
        if !delta.text.is_empty() {
            out.push(ModelEvent::ThinkingDelta(delta.text.clone().into_owned()));
        }
    }

    pub(super) fn push_call(&mut self, piece: &CallPiece<'_>, out: &mut Vec<ModelEvent>) {
        // The last call that the piece may belong to.
        let owner = self.blocks.iter_mut().rev().find_map(|block| match block {
            ChatOpenBlock::Call(call) if call.may_contain(piece) => Some(call),
            ChatOpenBlock::Call(_) | ChatOpenBlock::Text(_) | ChatOpenBlock::Reasoning(_) => None,
        });
        if let Some(call) = owner.filter(|call| !call.is_ended_by(piece)) {
            announce(call.push(piece), call, out);
        } else {
            let mut call = ChatOpenCall::default();
            announce(call.push(piece), &call, out);
            self.blocks.push(ChatOpenBlock::Call(call));
        }
    }

    pub(super) fn into_blocks(self, ids: &mut ReplyIds) -> Vec<ReplyBlock> {
        self.blocks
            .into_iter()
            .map(|block| match block {
                ChatOpenBlock::Text(text) => {
                    ReplyBlock::without_native_item(ReplyContent::Text { text })
                }
                ChatOpenBlock::Reasoning(reasoning) => reasoning_block(reasoning),
                ChatOpenBlock::Call(call) => {
                    ReplyBlock::without_native_item(ReplyContent::Call(call.into_call(ids)))
                }
            })
            .collect()
    }
}

fn announce(effect: NameChange, call: &ChatOpenCall, out: &mut Vec<ModelEvent>) {
    match effect {
        NameChange::Set => out.push(ModelEvent::CallStarted { name: call.name.clone() }),
        NameChange::Unchanged => {}
    }
}

fn reasoning_block(reasoning: OpenReasoning) -> ReplyBlock {
    let native = reasoning.native();
    let content = if reasoning.text.is_empty() {
        ReplyContent::Opaque
    } else {
        ReplyContent::Thinking { text: reasoning.text }
    };
    match native {
        Some(item) => ReplyBlock::with_native(content, item),
        None => ReplyBlock::without_native_item(content),
    }
}

/// A piece of `tool_calls`. Servers may omit any field.
#[derive(Debug)]
pub(super) struct CallPiece<'a> {
    index: Option<u64>,
    id: Option<&'a str>,
    name: Option<&'a str>,
    arguments: Option<&'a Value>,
}

impl<'a> CallPiece<'a> {
    pub(super) fn parse(piece: &'a Value) -> Self {
        let function = piece.get("function").unwrap_or(&Value::Null);
        let text = |value: &'a Value, name: &str| {
            value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
        };
        Self {
            index: piece.get("index").and_then(Value::as_u64),
            id: text(piece, "id"),
            name: text(function, "name"),
            arguments: function.get("arguments").filter(|arguments| !arguments.is_null()),
        }
    }
}

/// A call that still receives pieces.
#[derive(Debug, Default)]
struct ChatOpenCall {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: String,
}

/// Effect of a piece on the name of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameChange {
    /// The piece set the name.
    Set,
    /// The name was set before, or is still unknown.
    Unchanged,
}

impl ChatOpenCall {
    /// Returns true if `piece` may belong to this call, judged by its index or, without one, by its id.
    fn may_contain(&self, piece: &CallPiece<'_>) -> bool {
        match (piece.index, piece.id) {
            (Some(index), _) => self.index == Some(index),
            (None, Some(id)) => self.id.as_deref() == Some(id),
            (None, None) => true,
        }
    }

    /// Returns true if `piece` starts another call although it has the same index: some servers give every call index
    /// 0.
    fn is_ended_by(&self, piece: &CallPiece<'_>) -> bool {
        match (self.id.as_deref(), piece.id) {
            (Some(own), Some(other)) => own != other,
            _ => piece.name.is_some() && self.is_complete(),
        }
    }

    fn is_complete(&self) -> bool {
        !self.name.is_empty()
            && self.arguments.trim_start().starts_with('{')
            && serde_json::from_str::<serde::de::IgnoredAny>(&self.arguments).is_ok()
    }

    /// Adds a piece. Arguments that are not a string are complete.
    fn push(&mut self, piece: &CallPiece<'_>) -> NameChange {
        self.index = self.index.or(piece.index);
        if self.id.is_none() {
            self.id = piece.id.map(str::to_owned);
        }
        let effect = match piece.name {
            Some(name) if self.name.is_empty() => {
                name.clone_into(&mut self.name);
                NameChange::Set
            }
            // Some servers repeat the name in every piece.
            Some(_) | None => NameChange::Unchanged,
        };
        match piece.arguments {
            Some(Value::String(more)) => self.arguments.push_str(more),
            Some(value) => self.arguments = value.to_string(),
            None => {}
        }
        effect
    }

    /// Completes the call. A call without a name is kept: its result will report that there is no such tool.
    fn into_call(self, ids: &mut ReplyIds) -> ToolCall {
        ToolCall {
            id: ids.assign(self.id.as_deref()),
            name: self.name,
            arguments: CallArguments::parse(&self.arguments),
        }
    }
}

/// `OpenRouter`: a list of items, some of which only the provider can read.
const REASONING_DETAILS: &str = "reasoning_details";

/// `DeepSeek`, llama.cpp, `vLLM`: plain text.
const REASONING_CONTENT: &str = "reasoning_content";

/// `OpenRouter` in addition to its list, and newer `vLLM`: plain text.
const REASONING: &str = "reasoning";

/// Reasoning in a delta.
#[derive(Debug, Default)]
pub(super) struct ReasoningDelta<'a> {
    text: Cow<'a, str>,
    field: Option<&'static str>,
    details: &'a [Value],
}

impl<'a> ReasoningDelta<'a> {
    /// Creates a delta in the field that most servers use.
    pub(super) fn of_content(text: Cow<'a, str>) -> Self {
        Self { text, field: Some(REASONING_CONTENT), details: &[] }
    }

    /// Reads a delta. The same text may be in two fields: it counts once.
    pub(super) fn read(delta: &'a Value) -> Option<Self> {
        let text =
            |name: &str| delta.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let found = text(REASONING_CONTENT)
            .map(|text| (text, REASONING_CONTENT))
            .or_else(|| text(REASONING).map(|text| (text, REASONING)));
        let details =
            delta.get(REASONING_DETAILS).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if found.is_none() && details.is_empty() {
            return None;
        }
        let text = found.map_or_else(|| detail_text(details).into(), |(text, _)| text.into());
        Some(Self { text, field: found.map(|(_, field)| field), details })
    }
}

/// Reasoning that still receives deltas.
#[derive(Debug, Default)]
struct OpenReasoning {
    text: String,
    field: Option<&'static str>,
    details: Vec<Value>,
}

impl OpenReasoning {
    fn push(&mut self, delta: &ReasoningDelta<'_>) {
        self.text.push_str(&delta.text);
        self.field = self.field.or(delta.field);
        for detail in delta.details {
            let is_merged = self.details.last_mut().is_some_and(|last| merge_detail(last, detail));
            if !is_merged {
                self.details.push(detail.clone());
            }
        }
    }

    /// Returns the fields to send back, or `None` if they are empty.
    fn native(&self) -> Option<Value> {
        if !self.details.is_empty() {
            return Some(json!({ REASONING_DETAILS: self.details }));
        }
        let field = self.field.filter(|_| !self.text.is_empty())?;
        Some(json!({ field: self.text }))
    }
}

/// Returns the fields of all reasoning of a reply: texts joined, lists appended.
pub(super) fn reasoning_fields(blocks: &[ReplyBlock]) -> Map<String, Value> {
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
fn merge_detail(last: &mut Value, piece: &Value) -> bool {
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
