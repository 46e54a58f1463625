//! One line of the JSON output.

use std::borrow::Cow;

use crow_core::event::{Envelope, FORMAT_VERSION};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use super::RunReport;

/// The version of the format, as a number that cannot be another.
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

/// A line that tells an event.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct EventLine<'a> {
    /// The version of the format.
    pub(super) v: Version,
    #[serde(flatten)]
    pub(super) envelope: &'a Envelope,
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
