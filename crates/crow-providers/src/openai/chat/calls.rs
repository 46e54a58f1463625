//! Tool calls that are streamed in pieces.
//!
//! Servers differ in how they identify the call of a piece: an own index for each call, index 0 for all, or none; ids
//! and names in the first piece, in every piece, or not at all. A piece belongs to the last call with its index,
//! without an index to the last call with its id, without both to the last call. It starts another call if there is no
//! such call, if both have an id and the ids differ, or
//! otherwise if it has a name and the arguments of that call are complete.

use crow_core::message::{CallArguments, ToolCall};
use serde_json::Value;

use crate::openai::call_ids::ReplyIds;

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
pub(super) struct ChatOpenCall {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: String,
}

/// Effect of a piece on the name of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameChange {
    /// The piece set the name.
    Set,
    /// The name was set before, or is still unknown.
    Unchanged,
}

impl ChatOpenCall {
    /// Returns true if `piece` may belong to this call, judged by its index or, without one, by its id.
    pub(super) fn may_contain(&self, piece: &CallPiece<'_>) -> bool {
        match (piece.index, piece.id) {
            (Some(index), _) => self.index == Some(index),
            (None, Some(id)) => self.id.as_deref() == Some(id),
            (None, None) => true,
        }
    }

    /// Returns true if `piece` starts another call although it has the same index: some servers give every call index
    /// 0.
    pub(super) fn is_ended_by(&self, piece: &CallPiece<'_>) -> bool {
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
    pub(super) fn push(&mut self, piece: &CallPiece<'_>) -> NameChange {
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
    pub(super) fn into_call(self, ids: &mut ReplyIds) -> ToolCall {
        ToolCall {
            id: ids.assign(self.id.as_deref()),
            name: self.name,
            arguments: CallArguments::parse(&self.arguments),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}
