//! The types of lines of the JSON output. Their documentation is the description in the JSON Schema.

use std::borrow::Cow;

use crow_console::RunReport;
use crow_core::{
    event::{AgentEvent, Envelope, FORMAT_VERSION},
    ids::ReplyId,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

/// The version of the format; serializes as [`FORMAT_VERSION`], and its schema permits only that number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Version;

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(FORMAT_VERSION)
    }
}

impl JsonSchema for Version {
    fn schema_name() -> Cow<'static, str> {
        "Version".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "const": FORMAT_VERSION })
    }
}

/// A line with an event.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct EventLine<'a> {
    /// The version of the format.
    pub(super) v: Version,
    #[serde(flatten)]
    pub(super) envelope: &'a Envelope,
}

/// A line with more text or reasoning of a reply. The first delta of the reply was an event with its origin.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct DeltaLine<'a> {
    /// The version of the format.
    pub(super) v: Version,
    /// Kind of the delta.
    #[serde(rename = "type")]
    pub(super) kind: DeltaType,
    /// The reply.
    pub(super) reply_id: &'a ReplyId,
    /// Where the delta begins in the text or the reasoning of the reply, in bytes.
    pub(super) offset: u64,
    /// The text.
    pub(super) delta: &'a str,
}

/// The kind of a delta.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum DeltaType {
    /// The text of a reply.
    TextDelta,
    /// The reasoning of a reply.
    ThinkingDelta,
}

impl<'a> DeltaLine<'a> {
    /// Returns the line of a delta event; `None` for other events.
    pub(super) fn from_event(event: &'a AgentEvent) -> Option<Self> {
        let (kind, (reply_id, offset, delta)) =
            if let AgentEvent::TextDelta { reply_id, offset, delta } = event {
                (DeltaType::TextDelta, (reply_id, *offset, delta))
            } else if let AgentEvent::ThinkingDelta { reply_id, offset, delta } = event {
                (DeltaType::ThinkingDelta, (reply_id, *offset, delta))
            } else {
                return None;
            };
        Some(Self { v: Version, kind, reply_id, offset, delta })
    }
}

/// What the last line is called.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ResultType {
    /// The result of the run.
    Result,
}

/// The last line.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ResultLine<'a> {
    /// The version of the format.
    pub(super) v: Version,
    /// `result`, which is no event's type.
    #[serde(rename = "type")]
    pub(super) kind: ResultType,
    #[serde(flatten)]
    pub(super) report: &'a RunReport,
}
