//! The JSON lines.

use std::{
    collections::VecDeque,
    io::{self, Write},
};

use crow_core::{
    event::{AgentEvent, Envelope, NoticeAudience, NoticeLevel},
    ids::ReplyId,
};
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter};

use super::{
    RunReport,
    line::{DeltaLine, EventLine, ResultLine, ResultType, Version},
};
use crow_text::is_unseen;

/// Bytes after which what is pending is written even if nobody asks for it.
const MOST_PENDING: usize = 64 * 1024;
/// How many replies can be told at the same time, those of subagents included, before a delta of one repeats its origin.
const MOST_REPLIES: usize = 32;

/// Writes events and the result as JSON lines.
///
/// Invariant: each event is one line, and the result is the last line: writing it consumes the writer. Characters that
/// a terminal would obey are escaped, which changes nothing for a parser.
///
/// The first delta of a reply is told with its origin (session, agent, role …) like every event; those after it only with the
/// id of the reply, since the origin would be twenty times the text.
#[derive(Debug)]
pub struct JsonWriter<W> {
    sink: W,
    pending: Vec<u8>,
    deltas: Deltas,
    /// The replies whose origin was told, the oldest first.
    replies: VecDeque<ReplyId>,
}

/// Whether the pieces in which text and reasoning arrive are written. The whole text follows in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Deltas {
    /// They are.
    #[default]
    Written,
    /// They are left out.
    LeftOut,
}

impl<W: Write> JsonWriter<W> {
    /// Makes a writer.
    pub fn new(sink: W) -> Self {
        Self { sink, pending: Vec::new(), deltas: Deltas::default(), replies: VecDeque::new() }
    }

    /// Says whether deltas are written.
    #[must_use]
    pub fn with_deltas(mut self, deltas: Deltas) -> Self {
        self.deltas = deltas;
        self
    }

    /// Writes an event. One that cannot be told in JSON (a path that is not UTF-8) becomes a notice that says so.
    pub fn event(&mut self, envelope: &Envelope) -> io::Result<()> {
        match DeltaLine::of(&envelope.event) {
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

    /// Writes the result, and everything that is pending.
    pub fn result(&mut self, report: &RunReport) -> io::Result<()> {
        self.line(&ResultLine { v: Version, kind: ResultType::Result, report })?;
        self.flush()
    }

    /// Writes what is pending. The caller calls it when no event waits.
    pub fn flush(&mut self) -> io::Result<()> {
        let written = self.sink.write_all(&self.pending);
        self.pending.clear();
        written?;
        self.sink.flush()
    }

    /// Returns whether a delta of a reply was told with its origin; from now on it was.
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

/// Writes one line that holds nothing that a terminal would obey.
pub(crate) fn json_line(line: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    line.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Visible))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Tells that an event is left out.
fn left_out(envelope: &Envelope, error: &serde_json::Error) -> Envelope {
    let text = format!("an event is left out, for it cannot be written as JSON: {error}");
    let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
    let event = AgentEvent::Notice { level, audience, text };
    Envelope { event, ..envelope.clone() }
}

/// Escapes characters that control a terminal or cannot be seen.
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
