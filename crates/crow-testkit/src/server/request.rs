//! Records of requests and of the responses to them.

use std::time::Instant;

use bytes::Bytes;
use serde_json::Value;

use crate::wire::{ReplyUsage, WireDialect};

/// A received model request.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// Index in the order of arrival, from 0.
    pub index: usize,
    /// Dialect of the path.
    pub dialect: WireDialect,
    /// Path without the query.
    pub path: String,
    /// Query without the question mark, possibly empty.
    pub query: String,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Parsed body; null if it is not JSON.
    pub body: Value,
    /// Bytes of the body.
    pub raw_body: Bytes,
    /// Number of its connection, from 0.
    pub connection: usize,
    /// Time at which its first byte was read.
    pub first_byte_at: Instant,
    /// Time at which it was complete.
    pub received_at: Instant,
}

impl RecordedRequest {
    /// Returns the first header of this name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the requested model, from body or path; empty if there is none.
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

    /// Returns the value at a JSON pointer of the body; null if there is none.
    pub fn at(&self, pointer: &str) -> &Value {
        self.body.pointer(pointer).unwrap_or(&Value::Null)
    }
}

/// Progress of the response to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordedAnswer {
    /// State of the response.
    pub state: AnswerState,
    /// Usage reported in the reply; `None` if the response is not a reply.
    pub usage: Option<ReplyUsage>,
    /// Time at which the first byte was written.
    pub began_at: Option<Instant>,
    /// Time at which the last byte was written, or the client was found to be disconnected.
    pub ended_at: Option<Instant>,
}

/// State of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnswerState {
    /// Not finished.
    #[default]
    Open,
    /// Sent as scripted, faults included.
    Sent,
    /// The client closed the connection before the end.
    ClientDisconnected,
}
