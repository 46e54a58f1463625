//! Faults that are applied to a rendered reply.
//!
//! A reply is rendered to one chunk per event. Each fault then changes the list of chunks: it cuts it off, inserts
//! chunks, or changes or splits the data. [`FaultStage`] orders the faults, so that positions in events are still
//! valid when chunks are counted, and positions in bytes when they are split.

use std::num::NonZeroUsize;
use std::time::Duration;

use bytes::Bytes;

use super::{BodyChunk, BodyEnd, StreamGate};
use crate::wire::{
    ScriptedReply, VendorError, WireDialect, WireOptions, comment_frame, error_event_frame,
    error_frame, frames, terminal_frames, unknown_frame,
};

/// A deviation in the stream of a reply.
///
/// Faults can be combined. They take effect in the order of the variants here, not of the list: events, then line ends,
/// then bytes, then pacing. Positions in bytes count the body after the faults on events and line ends.
#[derive(Debug, Clone)]
pub enum Fault {
    /// After `events` the vendor's error event follows, and the body ends cleanly.
    ErrorAfter {
        /// Number of the reply's events that are still sent.
        events: usize,
        /// Error of the service.
        error: VendorError,
    },
    /// As `ErrorAfter`, but in the other form of Responses: the event `error` instead of `response.failed`.
    ErrorEventAfter {
        /// Number of the reply's events that are still sent.
        events: usize,
        /// Error of the service.
        error: VendorError,
    },
    /// The body ends after `events`.
    EndAfter {
        /// Number of the reply's events that are still sent.
        events: usize,
        /// Way in which the body ends.
        ending: BodyEnd,
    },
    /// The body ends before the events that mark the reply as complete.
    WithoutTerminal(BodyEnd),
    /// After `events` the stream waits at the gate, or until the client disconnects.
    StallAfter {
        /// Events sent before the stall.
        events: usize,
        /// Gate that the test opens to continue.
        gate: StreamGate,
    },
    /// An event of an unknown type follows each event but the last.
    UnknownEvents,
    /// A comment follows each event but the last.
    Comments,
    /// All lines have this line end.
    LineEnds(SseLineEnd),
    /// All occurrences of some bytes within an event are replaced.
    Replaced {
        /// Bytes that are replaced.
        old: Vec<u8>,
        /// Replacement.
        new: Vec<u8>,
    },
    /// The body begins with a byte order mark.
    ByteOrderMark,
    /// Each event is sent in pieces that end at these positions, counted within the event.
    SplitEach(Vec<usize>),
    /// The body is sent in pieces that end at these positions.
    SplitAt(Vec<usize>),
    /// The body is sent in pieces of this size; an event's end ends a piece as well.
    SplitEvery(NonZeroUsize),
    /// The body ends after `bytes`.
    CutAt {
        /// Bytes that are still sent.
        bytes: usize,
        /// Way in which the body ends.
        ending: BodyEnd,
    },
    /// Each piece waits at the gate.
    Gated(StreamGate),
    /// Each piece waits for this time.
    Delayed(Duration),
}

/// Line end of an event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SseLineEnd {
    /// `\n`.
    Lf,
    /// `\r\n`.
    CrLf,
    /// `\r`, which the specification allows as well.
    Cr,
}

impl Fault {
    /// Creates a fault that sends each byte separately.
    pub fn every_byte() -> Self {
        Self::SplitEvery(NonZeroUsize::MIN)
    }

    /// Returns true if the client does not get the complete reply.
    pub(super) fn truncates(&self) -> bool {
        matches!(self.stage(), FaultStage::EventCuts | FaultStage::ByteCuts)
    }

    fn stage(&self) -> FaultStage {
        match self {
            Self::ErrorAfter { .. }
            | Self::ErrorEventAfter { .. }
            | Self::EndAfter { .. }
            | Self::WithoutTerminal(_) => FaultStage::EventCuts,
            Self::StallAfter { .. } => FaultStage::Stalls,
            Self::UnknownEvents | Self::Comments => FaultStage::Insertions,
            Self::LineEnds(_) | Self::Replaced { .. } => FaultStage::Lines,
            Self::ByteOrderMark => FaultStage::Mark,
            Self::SplitEach(_) => FaultStage::EventSplits,
            Self::SplitAt(_) | Self::SplitEvery(_) => FaultStage::Splits,
            Self::CutAt { .. } => FaultStage::ByteCuts,
            Self::Gated(_) | Self::Delayed(_) => FaultStage::Pacing,
        }
    }
}

/// Order in which faults take effect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FaultStage {
    EventCuts,
    Stalls,
    Insertions,
    Lines,
    Mark,
    EventSplits,
    Splits,
    ByteCuts,
    Pacing,
}

/// Renders a reply and applies its faults.
pub(super) fn chunks(
    reply: &ScriptedReply,
    faults: &[Fault],
    dialect: WireDialect,
    options: &WireOptions,
) -> Vec<BodyChunk> {
    let mut body = FaultyBody {
        chunks: frames(reply, dialect, options).into_iter().map(BodyChunk::Data).collect(),
        ending: BodyEnd::Clean,
        terminal: terminal_frames(reply, dialect, options),
        dialect,
        options,
    };
    let mut in_order: Vec<&Fault> = faults.iter().collect();
    in_order.sort_by_key(|fault| fault.stage());
    for fault in in_order {
        body.apply(fault);
    }
    body.chunks.push(BodyChunk::End(body.ending));
    body.chunks
}

/// A body to which faults are applied.
struct FaultyBody<'a> {
    chunks: Vec<BodyChunk>,
    ending: BodyEnd,
    /// Number of final events that mark the reply as complete.
    terminal: usize,
    dialect: WireDialect,
    options: &'a WireOptions,
}

impl FaultyBody<'_> {
    fn apply(&mut self, fault: &Fault) {
        match fault {
            Fault::ErrorAfter { events, error } => {
                self.chunks.truncate(*events);
                let sequence = self.chunks.len();
                let frame = error_frame(error, self.dialect, self.options, sequence);
                self.chunks.push(BodyChunk::Data(frame));
            }
            Fault::ErrorEventAfter { events, error } => {
                self.chunks.truncate(*events);
                let sequence = self.chunks.len();
                let frame = error_event_frame(error, self.dialect, self.options, sequence);
                self.chunks.push(BodyChunk::Data(frame));
            }
            Fault::EndAfter { events, ending } => self.end_after(*events, *ending),
            Fault::WithoutTerminal(ending) => {
                self.end_after(self.chunks.len().saturating_sub(self.terminal), *ending);
            }
            Fault::StallAfter { events, gate } => {
                let position = self.position_after(*events);
                self.chunks.insert(position, BodyChunk::Gate(gate.clone()));
            }
            Fault::UnknownEvents => self.follow_each(&unknown_frame(self.dialect)),
            Fault::Comments => self.follow_each(&comment_frame()),
            Fault::LineEnds(end) => {
                self.map_data(|data, _| vec![BodyChunk::Data(with_line_ends(data, *end))]);
            }
            Fault::Replaced { old, new } => {
                self.map_data(|data, _| vec![BodyChunk::Data(with_replaced(data, old, new))]);
            }
            Fault::ByteOrderMark => {
                let mark = Bytes::from_static("\u{feff}".as_bytes());
                self.chunks.insert(0, BodyChunk::Data(mark));
            }
            Fault::SplitEach(positions) => self.map_data(|data, _| split(data, positions.clone())),
            Fault::SplitAt(positions) => self.map_data(|data, start| {
                split(data, positions.iter().filter_map(|at| at.checked_sub(start)).collect())
            }),
            Fault::SplitEvery(size) => self.map_data(|data, start| {
                let is_cut = |at: &usize| (start + at).is_multiple_of(size.get());
                split(data, (1..data.len()).filter(is_cut).collect())
            }),
            Fault::CutAt { bytes, ending } => self.cut_at(*bytes, *ending),
            Fault::Gated(gate) => self.precede_each(&BodyChunk::Gate(gate.clone())),
            Fault::Delayed(time) => self.precede_each(&BodyChunk::Delay(*time)),
        }
    }

    fn end_after(&mut self, events: usize, ending: BodyEnd) {
        self.chunks.truncate(events);
        self.ending = ending;
    }

    fn cut_at(&mut self, bytes: usize, ending: BodyEnd) {
        self.map_data(|data, start| {
            let length = data.len().min(bytes.saturating_sub(start));
            vec![BodyChunk::Data(data.slice(..length))]
        });
        // Gates and delays after the cut are removed as well.
        let is_sent =
            |chunk: &BodyChunk| matches!(chunk, BodyChunk::Data(data) if !data.is_empty());
        let sent = self.chunks.iter().rposition(is_sent).map_or(0, |last| last + 1);
        self.end_after(sent, ending);
    }

    /// Inserts a frame after each chunk of data but the last.
    fn follow_each(&mut self, frame: &Bytes) {
        let is_data = |chunk: &BodyChunk| matches!(chunk, BodyChunk::Data(_));
        let Some(last) = self.chunks.iter().rposition(is_data) else { return };
        let behind = self.chunks.split_off(last);
        self.map_data(|data, _| {
            vec![BodyChunk::Data(data.clone()), BodyChunk::Data(frame.clone())]
        });
        self.chunks.extend(behind);
    }

    /// Inserts a chunk before each chunk of data.
    fn precede_each(&mut self, chunk: &BodyChunk) {
        self.map_data(|data, _| vec![chunk.clone(), BodyChunk::Data(data.clone())]);
    }

    /// Replaces each chunk of data; `replace` gets the data and its start position in the body.
    fn map_data(&mut self, replace: impl Fn(&Bytes, usize) -> Vec<BodyChunk>) {
        let mut start = 0;
        self.chunks = std::mem::take(&mut self.chunks)
            .into_iter()
            .flat_map(|chunk| match chunk {
                BodyChunk::Data(data) => {
                    let replaced = replace(&data, start);
                    start += data.len();
                    replaced
                }
                BodyChunk::Gate(_) | BodyChunk::Delay(_) | BodyChunk::End(_) => vec![chunk],
            })
            .collect();
    }

    /// Returns the index of the chunk after `events` chunks of data.
    fn position_after(&self, events: usize) -> usize {
        self.chunks
            .iter()
            .enumerate()
            .filter(|(_, chunk)| matches!(chunk, BodyChunk::Data(_)))
            .nth(events)
            .map_or(self.chunks.len(), |(position, _)| position)
    }
}

fn with_line_ends(data: &[u8], end: SseLineEnd) -> Bytes {
    let end: &[u8] = match end {
        SseLineEnd::Lf => b"\n",
        SseLineEnd::CrLf => b"\r\n",
        SseLineEnd::Cr => b"\r",
    };
    let mut output = Vec::with_capacity(data.len() + 8);
    for byte in data {
        match byte {
            b'\r' => {}
            b'\n' => output.extend_from_slice(end),
            other => output.push(*other),
        }
    }
    Bytes::from(output)
}

fn with_replaced(data: &[u8], old: &[u8], new: &[u8]) -> Bytes {
    let mut output = Vec::with_capacity(data.len());
    let mut rest = data;
    while let Some((first, tail)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(old).filter(|_| !old.is_empty()) {
            output.extend_from_slice(new);
            rest = after;
        } else {
            output.push(*first);
            rest = tail;
        }
    }
    Bytes::from(output)
}

/// Splits data at those positions that lie inside it.
fn split(data: &Bytes, mut cuts: Vec<usize>) -> Vec<BodyChunk> {
    cuts.retain(|at| (1..data.len()).contains(at));
    cuts.sort_unstable();
    cuts.dedup();
    cuts.push(data.len());
    let mut from = 0;
    cuts.into_iter()
        .map(|to| {
            let piece = BodyChunk::Data(data.slice(from..to));
            from = to;
            piece
        })
        .collect()
}
