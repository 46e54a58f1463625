//! Tool calls that come in pieces.

use crow_core::message::{CallArguments, ToolCall};
use serde_json::Value;

use crate::openai::call_ids::ReplyIds;

/// One piece of `tool_calls`, as far as the server filled it in.
#[derive(Debug)]
pub(super) struct CallPiece<'a> {
    index: Option<u64>,
    id: Option<&'a str>,
    name: Option<&'a str>,
    arguments: Option<&'a Value>,
}

impl<'a> CallPiece<'a> {
    pub(super) fn read(piece: &'a Value) -> Self {
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

/// A call that is still coming in.
#[derive(Debug, Default)]
pub(super) struct ChatOpenCall {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: String,
}

/// What a piece did to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallPieceEffect {
    /// The call got its name by this piece.
    Now,
    /// It had one before, or has none yet.
    No,
}

impl ChatOpenCall {
    /// Whether `piece` may be about this call, judged by its index or, where there is none, by its id.
    pub(super) fn may_own(&self, piece: &CallPiece<'_>) -> bool {
        match (piece.index, piece.id) {
            (Some(index), _) => self.index == Some(index),
            (None, Some(id)) => self.id.as_deref() == Some(id),
            (None, None) => true,
        }
    }

    /// Whether `piece` begins another call although it has the same index: some servers give every call index 0.
    pub(super) fn is_followed_by(&self, piece: &CallPiece<'_>) -> bool {
        match (self.id.as_deref(), piece.id) {
            (Some(own), Some(other)) => own != other,
            _ => piece.name.is_some() && self.is_whole(),
        }
    }

    fn is_whole(&self) -> bool {
        !self.name.is_empty()
            && self.arguments.trim_start().starts_with('{')
            && serde_json::from_str::<serde::de::IgnoredAny>(&self.arguments).is_ok()
    }

    pub(super) fn push(&mut self, piece: &CallPiece<'_>) -> CallPieceEffect {
        self.index = self.index.or(piece.index);
        if self.id.is_none() {
            self.id = piece.id.map(str::to_owned);
        }
        let named = match piece.name {
            Some(name) if self.name.is_empty() => {
                name.clone_into(&mut self.name);
                CallPieceEffect::Now
            }
            // Said again with every piece by some servers.
            Some(_) | None => CallPieceEffect::No,
        };
        match piece.arguments {
            Some(Value::String(more)) => self.arguments.push_str(more),
            Some(whole) => self.arguments = whole.to_string(),
            None => {}
        }
        named
    }

    /// Ends the call. A call without a name stays one: its result will say that no such tool exists.
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
