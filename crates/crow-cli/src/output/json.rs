//! Events and the result of a run as JSON lines: their types, the writer, and the JSON Schema of all output.
//!
//! The documentation of the types of lines is the description in the schema.

use std::{
    borrow::Cow,
    collections::VecDeque,
    fmt::{self, Display},
    io::{self, Write},
};

use crow_console::RunReport;
use crow_core::{
    event::{AgentEvent, Envelope, FORMAT_VERSION, NoticeAudience, NoticeLevel},
    ids::ReplyId,
};
use crow_text::is_unseen;
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde::{Serialize, Serializer};
use serde_json::{
    Value, json,
    ser::{CompactFormatter, Formatter},
};

use super::{
    context::{ContextCompactionLine, ContextLine, ContextRequestLine},
    telemetry::{LedgerLine, SpanLine, StatisticsLine, WireLine},
    undo::{CallLine, DiffLine, RecordLine, UndoLine},
};
use crate::error::CliError;

/// Number of buffered bytes at which the writer flushes by itself.
const MOST_PENDING: usize = 64 * 1024;
/// Number of replies, those of subagents included, that can stream at the same time before a delta repeats its origin.
const MOST_REPLIES: usize = 32;

/// Writes events and the result as JSON lines.
///
/// Each event is one line, and the result is the last one. Characters that would control a terminal are escaped, which
/// makes no difference to a parser.
///
/// The first delta of a reply is written with its origin (session, agent, role …) like every event. Later ones have
/// only the id of the reply, since the origin would be twenty times as long as the text.
#[derive(Debug)]
pub struct JsonWriter<W> {
    sink: W,
    pending: Vec<u8>,
    deltas: Deltas,
    /// The replies whose origin was written, the oldest first; at most [`MOST_REPLIES`].
    replies: VecDeque<ReplyId>,
}

/// Selects whether the deltas of text and reasoning are written. The complete text follows in either case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Deltas {
    /// Deltas are written.
    #[default]
    Written,
    /// Deltas are left out.
    LeftOut,
}

impl<W: Write> JsonWriter<W> {
    /// Creates a writer to `sink` that includes deltas.
    pub fn new(sink: W) -> Self {
        Self { sink, pending: Vec::new(), deltas: Deltas::default(), replies: VecDeque::new() }
    }

    /// Sets whether deltas are written.
    #[must_use]
    pub fn with_deltas(mut self, deltas: Deltas) -> Self {
        self.deltas = deltas;
        self
    }

    /// Writes an event. One that cannot be represented in JSON (a path that is not UTF-8) is replaced by a notice that
    /// says so.
    pub fn event(&mut self, envelope: &Envelope) -> io::Result<()> {
        match DeltaLine::from_event(&envelope.event) {
            Some(_) if self.deltas == Deltas::LeftOut => {}
            Some(line) if self.is_origin_told(line.reply_id) => self.line(&line)?,
            _ => {
                if let Err(error) = self.event_line(envelope) {
                    self.event_line(&left_out(envelope, &error))?;
                }
            }
        }
        if self.pending.len() >= MOST_PENDING { self.flush() } else { Ok(()) }
    }

    /// Writes the result and flushes the buffer.
    pub fn result(&mut self, report: &RunReport) -> io::Result<()> {
        self.line(&ResultLine { v: Version, kind: ResultType::Result, report })?;
        self.flush()
    }

    /// Writes the buffered lines to the sink. The caller calls it when no event is queued.
    pub fn flush(&mut self) -> io::Result<()> {
        let written = self.sink.write_all(&self.pending);
        self.pending.clear();
        written?;
        self.sink.flush()
    }

    /// Returns true if the origin of the reply has been written, and marks it as written.
    fn is_origin_told(&mut self, reply: &ReplyId) -> bool {
        if self.replies.contains(reply) {
            return true;
        }
        if self.replies.len() == MOST_REPLIES {
            self.replies.pop_front();
        }
        self.replies.push_back(reply.clone());
        false
    }

    fn event_line(&mut self, envelope: &Envelope) -> serde_json::Result<()> {
        self.line(&EventLine { v: Version, envelope })
    }

    fn line(&mut self, line: &impl Serialize) -> serde_json::Result<()> {
        self.pending.extend(json_line(line)?);
        Ok(())
    }
}

/// Returns one JSON line without characters that control a terminal.
fn json_line(line: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    line.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Visible))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Returns one JSON line of the output of a command.
pub(crate) fn output_line(line: &impl Serialize) -> Result<Vec<u8>, CliError> {
    json_line(line)
        .map_err(|error| CliError::failed(format!("this cannot be written as JSON: {error}")))
}

/// Returns JSON with escapes in place of characters that control a terminal or are invisible. Line breaks between the values
/// stay.
pub(crate) fn visible_json(json: &impl Display) -> String {
    let json = json.to_string();
    if json.bytes().all(|byte| byte.is_ascii() && byte != 0x7f) {
        return json;
    }
    let mut visible = String::with_capacity(json.len());
    for character in json.chars() {
        if character != '\n' && is_unseen(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = fmt::Write::write_fmt(&mut visible, format_args!("\\u{unit:04x}"));
            }
        } else {
            visible.push(character);
        }
    }
    visible
}

/// Returns the notice that replaces an event.
fn left_out(envelope: &Envelope, error: &serde_json::Error) -> Envelope {
    let text = format!("an event is left out, for it cannot be written as JSON: {error}");
    let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
    let event = AgentEvent::Notice { level, audience, text };
    Envelope { event, ..envelope.clone() }
}

/// JSON formatter that escapes characters that control a terminal or are invisible.
#[derive(Debug)]
struct Visible;

impl Formatter for Visible {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if fragment.bytes().all(|byte| byte.is_ascii() && byte != 0x7f) {
            return CompactFormatter.write_string_fragment(writer, fragment);
        }
        let mut units = [0; 2];
        let mut bytes = [0; 4];
        for character in fragment.chars() {
            if is_unseen(character) {
                for unit in character.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            } else {
                writer.write_all(character.encode_utf8(&mut bytes).as_bytes())?;
            }
        }
        Ok(())
    }
}

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
struct EventLine<'a> {
    /// The version of the format.
    pub(super) v: Version,
    #[serde(flatten)]
    pub(super) envelope: &'a Envelope,
}

/// A line with more text or reasoning of a reply. The first delta of the reply was an event with its origin.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct DeltaLine<'a> {
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
    fn from_event(event: &'a AgentEvent) -> Option<Self> {
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
struct ResultLine<'a> {
    /// The version of the format.
    pub(super) v: Version,
    /// `result`, which is no event's type.
    #[serde(rename = "type")]
    pub(super) kind: ResultType,
    #[serde(flatten)]
    pub(super) report: &'a RunReport,
}

/// Returns the JSON Schema (draft 2020-12) of one line of the JSON output.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let event = generator.subschema_for::<EventLine<'static>>();
    let delta = generator.subschema_for::<DeltaLine<'static>>();
    let result = generator.subschema_for::<ResultLine<'static>>();
    let undo = generator.subschema_for::<UndoLine>();
    let call = generator.subschema_for::<CallLine>();
    let record = generator.subschema_for::<RecordLine>();
    let diff = generator.subschema_for::<DiffLine<'static>>();
    let context = generator.subschema_for::<ContextLine>();
    let request = generator.subschema_for::<ContextRequestLine>();
    let compaction = generator.subschema_for::<ContextCompactionLine>();
    let span = generator.subschema_for::<SpanLine<'static>>();
    let statistics = generator.subschema_for::<StatisticsLine>();
    let ledger = generator.subschema_for::<LedgerLine>();
    let wire = generator.subschema_for::<WireLine<'static>>();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of `crow-agent … --output json`",
        "description": "`run`: every line is an event, but the last, which is the result; the deltas of a reply after its first name only the reply. `undo`, `redo` and `restore`: one undo_report. `diff`: one diff. `sessions show --changes`: a call_changes or an undo_record each. `sessions show --context`: one context, then a context_request for each model call and a context_compaction for each compaction. `trace`: one span for each piece of work. `stats`: one statistics for each row, the last one with the sums of all. `ledger`: one ledger for each request. `wire`: one wire_exchange for each recorded request. Where a command fails, its last line is a result with the error.",
        "oneOf": [event, delta, result, undo, call, record, diff, context, request, compaction, span, statistics, ledger, wire],
        "$defs": generator.take_definitions(true),
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn the_file_in_docs_is_the_schema() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/book/src/json-output.schema.json");
        let fresh = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
        if fs::read_to_string(&path).is_ok_and(|stored| stored == fresh) {
            return;
        }
        fs::write(&path, fresh).unwrap();
        panic!(
            "docs/book/src/json-output.schema.json was not up to date and is written anew: review it and run the test again"
        );
    }

    #[test]
    fn no_event_has_a_key_of_its_envelope() {
        let schema = schema();
        let line = &schema["$defs"]["EventLine"];
        let envelope = line["properties"].as_object().unwrap();
        for event in line["oneOf"].as_array().unwrap() {
            let keys = event["properties"].as_object().unwrap().keys();
            let shared: Vec<_> = keys.filter(|key| envelope.contains_key(*key)).collect();
            assert!(shared.is_empty(), "{shared:?} in {event}");
        }
    }

    #[test]
    fn a_result_has_all_its_keys() {
        let schema = schema();
        let result = &schema["$defs"]["ResultLine"];
        let required = result["required"].as_array().unwrap();
        let keys = result["properties"].as_object().unwrap().keys();
        assert!(keys.into_iter().all(|key| required.iter().any(|required| required == key)));
    }
}
