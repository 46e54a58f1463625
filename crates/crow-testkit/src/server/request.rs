//! What the server remembers of a request and of its answer.

use std::time::Instant;

use bytes::Bytes;
use serde_json::Value;

use crate::wire::{ReplyUsage, WireDialect};

/// A model request as it came.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// Its place in the order of arrival, from 0.
    pub index: usize,
    /// The dialect of its path.
    pub dialect: WireDialect,
    /// The path without the query.
    pub path: String,
    /// The query without its question mark, possibly empty.
    pub query: String,
    /// The headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; null if it is not JSON.
    pub body: Value,
    /// The body's bytes.
    pub raw_body: Bytes,
    /// The number of the connection it came on, from 0.
    pub connection: usize,
    /// When its first byte was seen.
    pub first_byte_at: Instant,
    /// When it was complete.
    pub received_at: Instant,
}

impl RecordedRequest {
    /// The first header of this name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The model asked for, from body or path; empty if there is none.
    pub fn model(&self) -> &str {
        match self.dialect {
            WireDialect::AnthropicMessages
            | WireDialect::OpenAiResponses
            | WireDialect::OpenAiChat => {
                self.body.get("model").and_then(Value::as_str).unwrap_or_default()
            }
            WireDialect::Gemini => self
                .path
                .rsplit_once('/')
                .and_then(|(_, tail)| tail.split_once(':'))
                .map_or("", |(model, _)| model),
        }
    }

    /// The value at a JSON pointer of the body; null where there is none.
    pub fn at(&self, pointer: &str) -> &Value {
        self.body.pointer(pointer).unwrap_or(&Value::Null)
    }
}

/// How far the answer to a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordedAnswer {
    /// The state.
    pub state: AnswerState,
    /// The usage reported in the reply; none if the answer is no reply.
    pub usage: Option<ReplyUsage>,
    /// When its first byte was written.
    pub began_at: Option<Instant>,
    /// When its last byte was written, or the client was found to have left.
    pub ended_at: Option<Instant>,
}

/// The state of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnswerState {
    /// Not finished.
    #[default]
    Open,
    /// Sent as scripted, with whatever fault that implies.
    Sent,
    /// The client closed the connection before the end.
    ClientLeft,
}
