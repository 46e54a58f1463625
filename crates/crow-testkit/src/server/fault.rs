//! Faults that are laid over a rendered reply.

use std::num::NonZeroUsize;
use std::time::Duration;

use bytes::Bytes;

use super::{Chunk, Ending, Gate};
use crate::wire::{
    Dialect, Reply, VendorError, WireOptions, comment_frame, error_event_frame, error_frame,
    frames, terminal_frames, unknown_frame,
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
        ending: Ending,
    },
    /// The body ends before the events that say the reply is complete.
    WithoutTerminal(Ending),
    /// After so many events the stream waits at the gate or until the client leaves.
    StallAfter {
        /// Events sent before the stall.
        events: usize,
        /// Opened by the test to go on.
        gate: Gate,
    },
    /// An event that no client knows follows each event but the last.
    UnknownEvents,
    /// A comment follows each event but the last.
    Comments,
    /// All lines end in this way.
    LineEnds(LineEnd),
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
        ending: Ending,
    },
    /// Each piece waits at the gate.
    Gated(Gate),
    /// Each piece waits for this time.
    Delayed(Duration),
}

/// A way to end a line of an event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEnd {
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
        matches!(self.stage(), Stage::EventCuts | Stage::ByteCuts)
    }

    fn stage(&self) -> Stage {
        match self {
            Self::ErrorAfter { .. }
            | Self::ErrorEventAfter { .. }
            | Self::EndAfter { .. }
            | Self::WithoutTerminal(_) => Stage::EventCuts,
            Self::StallAfter { .. } => Stage::Stalls,
            Self::UnknownEvents | Self::Comments => Stage::Insertions,
            Self::LineEnds(_) | Self::Replaced { .. } => Stage::Lines,
            Self::ByteOrderMark => Stage::Mark,
            Self::SplitEach(_) => Stage::EventSplits,
            Self::SplitAt(_) | Self::SplitEvery(_) => Stage::Splits,
            Self::CutAt { .. } => Stage::ByteCuts,
            Self::Gated(_) | Self::Delayed(_) => Stage::Pacing,
        }
    }
}

/// When a fault takes effect, whatever its place in the list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
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
    reply: &Reply,
    faults: &[Fault],
    dialect: Dialect,
    options: &WireOptions,
) -> Vec<Chunk> {
    let mut body = Body {
        chunks: frames(reply, dialect, options).into_iter().map(Chunk::Data).collect(),
        ending: Ending::Clean,
        terminal: terminal_frames(reply, dialect, options),
        dialect,
        options,
    };
    let mut in_order: Vec<&Fault> = faults.iter().collect();
    in_order.sort_by_key(|fault| fault.stage());
    for fault in in_order {
        body.apply(fault);
    }
    body.chunks.push(Chunk::End(body.ending));
    body.chunks
}

struct Body<'a> {
    chunks: Vec<Chunk>,
    ending: Ending,
    terminal: usize,
    dialect: Dialect,
    options: &'a WireOptions,
}

impl Body<'_> {
    fn apply(&mut self, fault: &Fault) {
        match fault {
            Fault::ErrorAfter { events, error } => {
                self.chunks.truncate(*events);
                let sequence = self.chunks.len();
                let frame = error_frame(error, self.dialect, self.options, sequence);
                self.chunks.push(Chunk::Data(frame));
            }
            Fault::ErrorEventAfter { events, error } => {
                self.chunks.truncate(*events);
                let sequence = self.chunks.len();
                let frame = error_event_frame(error, self.dialect, self.options, sequence);
                self.chunks.push(Chunk::Data(frame));
            }
            Fault::EndAfter { events, ending } => self.end_after(*events, *ending),
            Fault::WithoutTerminal(ending) => {
                self.end_after(self.chunks.len().saturating_sub(self.terminal), *ending);
            }
            Fault::StallAfter { events, gate } => {
                let position = self.position_after(*events);
                self.chunks.insert(position, Chunk::Gate(gate.clone()));
            }
            Fault::UnknownEvents => self.follow_each(&unknown_frame(self.dialect)),
            Fault::Comments => self.follow_each(&comment_frame()),
            Fault::LineEnds(end) => {
                self.map_data(|data, _| vec![Chunk::Data(with_line_ends(data, *end))]);
            }
            Fault::Replaced { old, new } => {
                self.map_data(|data, _| vec![Chunk::Data(with_replaced(data, old, new))]);
            }
            Fault::ByteOrderMark => {
                let mark = Bytes::from_static("\u{feff}".as_bytes());
                self.chunks.insert(0, Chunk::Data(mark));
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
            Fault::Gated(gate) => self.precede_each(&Chunk::Gate(gate.clone())),
            Fault::Delayed(time) => self.precede_each(&Chunk::Delay(*time)),
        }
    }

    fn end_after(&mut self, events: usize, ending: Ending) {
        self.chunks.truncate(events);
        self.ending = ending;
    }

    fn cut_at(&mut self, bytes: usize, ending: Ending) {
        self.map_data(|data, start| {
            let length = data.len().min(bytes.saturating_sub(start));
            vec![Chunk::Data(data.slice(..length))]
        });
        // What waits behind the cut is cut as well.
        let is_sent = |chunk: &Chunk| matches!(chunk, Chunk::Data(data) if !data.is_empty());
        let kept = self.chunks.iter().rposition(is_sent).map_or(0, |last| last + 1);
        self.end_after(kept, ending);
    }

    fn follow_each(&mut self, frame: &Bytes) {
        let is_data = |chunk: &Chunk| matches!(chunk, Chunk::Data(_));
        let Some(last) = self.chunks.iter().rposition(is_data) else { return };
        let behind = self.chunks.split_off(last);
        self.map_data(|data, _| vec![Chunk::Data(data.clone()), Chunk::Data(frame.clone())]);
        self.chunks.extend(behind);
    }

    fn precede_each(&mut self, chunk: &Chunk) {
        self.map_data(|data, _| vec![chunk.clone(), Chunk::Data(data.clone())]);
    }

    /// Replaces each chunk of data; `replace` is also told at which byte of the body the chunk begins.
    fn map_data(&mut self, replace: impl Fn(&Bytes, usize) -> Vec<Chunk>) {
        let mut start = 0;
        self.chunks = std::mem::take(&mut self.chunks)
            .into_iter()
            .flat_map(|chunk| match chunk {
                Chunk::Data(data) => {
                    let replaced = replace(&data, start);
                    start += data.len();
                    replaced
                }
                Chunk::Gate(_) | Chunk::Delay(_) | Chunk::End(_) => vec![chunk],
            })
            .collect();
    }

    fn position_after(&self, events: usize) -> usize {
        self.chunks
            .iter()
            .enumerate()
            .filter(|(_, chunk)| matches!(chunk, Chunk::Data(_)))
            .nth(events)
            .map_or(self.chunks.len(), |(position, _)| position)
    }
}

fn with_line_ends(data: &[u8], end: LineEnd) -> Bytes {
    let end: &[u8] = match end {
        LineEnd::Lf => b"\n",
        LineEnd::CrLf => b"\r\n",
        LineEnd::Cr => b"\r",
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
fn split(data: &Bytes, mut cuts: Vec<usize>) -> Vec<Chunk> {
    cuts.retain(|at| (1..data.len()).contains(at));
    cuts.sort_unstable();
    cuts.dedup();
    cuts.push(data.len());
    let mut from = 0;
    cuts.into_iter()
        .map(|to| {
            let piece = Chunk::Data(data.slice(from..to));
            from = to;
            piece
        })
        .collect()
}
