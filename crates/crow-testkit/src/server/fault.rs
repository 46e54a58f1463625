//! Faults that are laid over a rendered reply.

use std::num::NonZeroUsize;
use std::time::Duration;

use bytes::Bytes;

use super::{Chunk, Ending, Gate};
use crate::wire::{
    Dialect, Reply, VendorError, WireOptions, comment_frame, error_frame, frames, terminal_frames,
    unknown_frame,
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
    /// The body begins with a byte order mark.
    ByteOrderMark,
    /// The body ends after so many bytes.
    CutAt {
        /// Bytes still sent.
        bytes: usize,
        /// How it ends.
        ending: Ending,
    },
    /// The body is sent in pieces that end at these positions.
    SplitAt(Vec<usize>),
    /// Each event is sent in pieces that end at these positions, counted within the event.
    SplitEach(Vec<usize>),
    /// The body is sent in pieces of this size.
    SplitEvery(NonZeroUsize),
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
        match self {
            Self::ErrorAfter { .. }
            | Self::EndAfter { .. }
            | Self::WithoutTerminal(_)
            | Self::CutAt { .. } => true,
            Self::StallAfter { .. }
            | Self::UnknownEvents
            | Self::Comments
            | Self::LineEnds(_)
            | Self::ByteOrderMark
            | Self::SplitAt(_)
            | Self::SplitEach(_)
            | Self::SplitEvery(_)
            | Self::Gated(_)
            | Self::Delayed(_) => false,
        }
    }
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
    };
    let terminal = terminal_frames(reply, dialect, options);
    for fault in faults {
        body.cut_events(fault, terminal, dialect, options);
    }
    for fault in faults {
        body.add_events(fault, dialect);
    }
    for fault in faults {
        body.shape_lines(fault);
    }
    for fault in faults {
        body.split(fault);
    }
    for fault in faults {
        body.cut_bytes(fault);
    }
    for fault in faults {
        body.pace(fault);
    }
    body.chunks.push(Chunk::End(body.ending));
    body.chunks
}

struct Body {
    chunks: Vec<Chunk>,
    ending: Ending,
}

impl Body {
    fn cut_events(
        &mut self,
        fault: &Fault,
        terminal: usize,
        dialect: Dialect,
        options: &WireOptions,
    ) {
        match fault {
            Fault::ErrorAfter { events, error } => {
                self.chunks.truncate(*events);
                let sequence = self.chunks.len();
                self.chunks.push(Chunk::Data(error_frame(error, dialect, options, sequence)));
            }
            Fault::EndAfter { events, ending } => {
                self.chunks.truncate(*events);
                self.ending = *ending;
            }
            Fault::WithoutTerminal(ending) => {
                self.chunks.truncate(self.chunks.len().saturating_sub(terminal));
                self.ending = *ending;
            }
            Fault::StallAfter { .. }
            | Fault::UnknownEvents
            | Fault::Comments
            | Fault::LineEnds(_)
            | Fault::ByteOrderMark
            | Fault::CutAt { .. }
            | Fault::SplitAt(_)
            | Fault::SplitEach(_)
            | Fault::SplitEvery(_)
            | Fault::Gated(_)
            | Fault::Delayed(_) => {}
        }
    }

    fn add_events(&mut self, fault: &Fault, dialect: Dialect) {
        match fault {
            Fault::StallAfter { events, gate } => {
                let position = self.position_after(*events);
                self.chunks.insert(position, Chunk::Gate(gate.clone()));
            }
            Fault::UnknownEvents => self.follow_each(&unknown_frame(dialect)),
            Fault::Comments => self.follow_each(&comment_frame()),
            Fault::ErrorAfter { .. }
            | Fault::EndAfter { .. }
            | Fault::WithoutTerminal(_)
            | Fault::LineEnds(_)
            | Fault::ByteOrderMark
            | Fault::CutAt { .. }
            | Fault::SplitAt(_)
            | Fault::SplitEach(_)
            | Fault::SplitEvery(_)
            | Fault::Gated(_)
            | Fault::Delayed(_) => {}
        }
    }

    fn shape_lines(&mut self, fault: &Fault) {
        if let Fault::LineEnds(end) = fault {
            self.chunks = std::mem::take(&mut self.chunks)
                .into_iter()
                .map(|chunk| match chunk {
                    Chunk::Data(data) => Chunk::Data(with_line_ends(&data, *end)),
                    Chunk::Gate(_) | Chunk::Delay(_) | Chunk::End(_) => chunk,
                })
                .collect();
        }
        if matches!(fault, Fault::ByteOrderMark) {
            self.chunks.insert(0, Chunk::Data(Bytes::from_static("\u{feff}".as_bytes())));
        }
    }

    fn split(&mut self, fault: &Fault) {
        let mut start = 0;
        self.chunks = std::mem::take(&mut self.chunks)
            .into_iter()
            .flat_map(|chunk| match chunk {
                Chunk::Data(data) => {
                    let pieces = split_data(&data, start, fault);
                    start += data.len();
                    pieces
                }
                Chunk::Gate(_) | Chunk::Delay(_) | Chunk::End(_) => vec![chunk],
            })
            .collect();
    }

    fn cut_bytes(&mut self, fault: &Fault) {
        let Fault::CutAt { bytes, ending } = fault else { return };
        let mut left = *bytes;
        let mut kept = Vec::new();
        for chunk in std::mem::take(&mut self.chunks) {
            if left == 0 {
                break;
            }
            match chunk {
                Chunk::Data(data) => {
                    let length = data.len().min(left);
                    kept.push(Chunk::Data(data.slice(..length)));
                    left -= length;
                }
                Chunk::Gate(_) | Chunk::Delay(_) | Chunk::End(_) => kept.push(chunk),
            }
        }
        self.chunks = kept;
        self.ending = *ending;
    }

    fn pace(&mut self, fault: &Fault) {
        let before = match fault {
            Fault::Gated(gate) => Chunk::Gate(gate.clone()),
            Fault::Delayed(time) => Chunk::Delay(*time),
            Fault::ErrorAfter { .. }
            | Fault::EndAfter { .. }
            | Fault::WithoutTerminal(_)
            | Fault::StallAfter { .. }
            | Fault::UnknownEvents
            | Fault::Comments
            | Fault::LineEnds(_)
            | Fault::ByteOrderMark
            | Fault::CutAt { .. }
            | Fault::SplitAt(_)
            | Fault::SplitEach(_)
            | Fault::SplitEvery(_) => return,
        };
        self.chunks = std::mem::take(&mut self.chunks)
            .into_iter()
            .flat_map(|chunk| match chunk {
                Chunk::Data(_) => vec![before.clone(), chunk],
                Chunk::Gate(_) | Chunk::Delay(_) | Chunk::End(_) => vec![chunk],
            })
            .collect();
    }

    fn follow_each(&mut self, frame: &Bytes) {
        let last = self.chunks.len().saturating_sub(1);
        self.chunks = std::mem::take(&mut self.chunks)
            .into_iter()
            .enumerate()
            .flat_map(|(index, chunk)| match chunk {
                Chunk::Data(_) if index < last => vec![chunk, Chunk::Data(frame.clone())],
                Chunk::Data(_) | Chunk::Gate(_) | Chunk::Delay(_) | Chunk::End(_) => vec![chunk],
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

/// Cuts one chunk that begins at `start` of the body.
fn split_data(data: &Bytes, start: usize, fault: &Fault) -> Vec<Chunk> {
    let within = |position: &usize| (1..data.len()).contains(position);
    let mut cuts: Vec<usize> = match fault {
        Fault::SplitAt(positions) => positions
            .iter()
            .filter_map(|position| position.checked_sub(start))
            .filter(within)
            .collect(),
        Fault::SplitEach(positions) => positions.iter().copied().filter(within).collect(),
        // Pieces are counted through the body, and the event ends are cuts of their own.
        Fault::SplitEvery(size) => (1..data.len())
            .filter(|position| (start + position).is_multiple_of(size.get()))
            .collect(),
        Fault::ErrorAfter { .. }
        | Fault::EndAfter { .. }
        | Fault::WithoutTerminal(_)
        | Fault::StallAfter { .. }
        | Fault::UnknownEvents
        | Fault::Comments
        | Fault::LineEnds(_)
        | Fault::ByteOrderMark
        | Fault::CutAt { .. }
        | Fault::Gated(_)
        | Fault::Delayed(_) => Vec::new(),
    };
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
