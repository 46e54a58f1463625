//! A span as it was received.

use opentelemetry_proto::tonic::{common::v1::any_value::Value, trace::v1::Span};

use super::attributes::value;

/// A span, and the process that sent it.
#[derive(Debug, Clone)]
pub struct ReceivedSpan {
    /// The instance of the service, and the id of its process.
    pub process: (String, i64),
    /// The span.
    pub span: Span,
}

impl ReceivedSpan {
    /// Returns the text of an attribute.
    pub fn text(&self, key: &str) -> Option<&str> {
        match value(&self.span.attributes, key)? {
            Value::StringValue(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the number of an attribute.
    pub fn integer(&self, key: &str) -> Option<i64> {
        match value(&self.span.attributes, key)? {
            Value::IntValue(number) => Some(*number),
            _ => None,
        }
    }
}
