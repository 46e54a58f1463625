//! Faults that are laid over a rendered reply.

use std::num::NonZeroUsize;
use std::time::Duration;

use bytes::Bytes;

use super::{BodyChunk, BodyEnd, StreamGate};
use crate::wire::{
    ScriptedReply, VendorError, WireDialect, WireOptions, comment_frame, error_event_frame,
    error_frame, frames, terminal_frames, unknown_frame,
};

/// Something that goes wrong, or just differently, while a reply is streamed.
///
/// Faults compose. Whatever their order in the list, they take effect in the order in which they stand here: events,
/// then line ends, then bytes, then pacing. Positions in bytes count the body after the faults on events and line ends.
#[derive(Debug, Clone)]
pub enum Fault {
    /// After so many events comes an error event of the vendor, and then the clean end of the body.
    ErrorAfter {
        /// Events of the reply that are still sent.
        events: usize,
        /// What the service complains about.
        error: VendorError,
    },
    /// The same in the other form that Responses has: the event `error` instead of `response.failed`.
    ErrorEventAfter {
        /// Events of the reply that are still sent.
        events: usize,
        /// What the service complains about.
        error: VendorError,
    },
    /// The body ends after so many events.
    EndAfter {
        /// Events of the reply that are still sent.
        events: usize,
        /// How it ends.
        ending: BodyEnd,
    },
    /// The body ends before the events that say the reply is complete.
    WithoutTerminal(BodyEnd),
    /// After so many events the stream waits at the gate or until the client leaves.
    StallAfter {
        /// Events sent before the stall.
        events: usize,
        /// Opened by the test to go on.
        gate: StreamGate,
    },
    /// An event that no client knows follows each event but the last.
    UnknownEvents,
    /// A comment follows each event but the last.
    Comments,
    /// All lines end in this way.
    LineEnds(SseLineEnd),
    /// Other bytes stand in place of these, wherever an event has them.
    Replaced {
        /// What would be sent.
        old: Vec<u8>,
        /// What is sent.
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
    /// The body ends after so many bytes.
    CutAt {
        /// Bytes still sent.
        bytes: usize,
        /// How it ends.
        ending: BodyEnd,
    },
    /// Each piece waits at the gate.
    Gated(StreamGate),
    /// Each piece waits for this time.
    Delayed(Duration),
}

/// A way to end a line of an event stream.
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
    /// Pieces of one byte.
    pub fn every_byte() -> Self {
        Self::SplitEvery(NonZeroUsize::MIN)
    }

    /// Whether the client cannot get the whole reply.
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

/// When a fault takes effect, whatever its place in the list.
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

/// Renders a reply with its faults.
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

struct FaultyBody<'a> {
    chunks: Vec<BodyChunk>,
    ending: BodyEnd,
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
        // What waits behind the cut is cut as well.
        let is_sent =
            |chunk: &BodyChunk| matches!(chunk, BodyChunk::Data(data) if !data.is_empty());
        let kept = self.chunks.iter().rposition(is_sent).map_or(0, |last| last + 1);
        self.end_after(kept, ending);
    }

    fn follow_each(&mut self, frame: &Bytes) {
        let is_data = |chunk: &BodyChunk| matches!(chunk, BodyChunk::Data(_));
        let Some(last) = self.chunks.iter().rposition(is_data) else { return };
        let behind = self.chunks.split_off(last);
        self.map_data(|data, _| {
            vec![BodyChunk::Data(data.clone()), BodyChunk::Data(frame.clone())]
        });
        self.chunks.extend(behind);
    }

    fn precede_each(&mut self, chunk: &BodyChunk) {
        self.map_data(|data, _| vec![chunk.clone(), BodyChunk::Data(data.clone())]);
    }

    /// Replaces each chunk of data; `replace` is also told at which byte of the body the chunk begins.
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
    let mut shaped = Vec::with_capacity(data.len() + 8);
    for byte in data {
        match byte {
            b'\r' => {}
            b'\n' => shaped.extend_from_slice(end),
            other => shaped.push(*other),
        }
    }
    Bytes::from(shaped)
}

fn with_replaced(data: &[u8], old: &[u8], new: &[u8]) -> Bytes {
    let mut shaped = Vec::with_capacity(data.len());
    let mut rest = data;
    while let Some((first, tail)) = rest.split_first() {
        if let Some(behind) = rest.strip_prefix(old).filter(|_| !old.is_empty()) {
            shaped.extend_from_slice(new);
            rest = behind;
        } else {
            shaped.push(*first);
            rest = tail;
        }
    }
    Bytes::from(shaped)
}

/// Cuts data at the positions that lie inside it.
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
