//! Writes events and the result of a run as JSON lines.

use std::{
    collections::VecDeque,
    io::{self, Write},
};

use crow_console::RunReport;
use crow_core::{
    event::{AgentEvent, Envelope, NoticeAudience, NoticeLevel},
    ids::ReplyId,
};
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter};

use super::line::{DeltaLine, EventLine, ResultLine, ResultType, Version};
use crate::error::CliError;
use crow_text::is_unseen;

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
