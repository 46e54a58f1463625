//! The end of a stream that is read while it grows.

use crow_core::capability::{OutputFile, OutputLimits};

use super::spill::SpillFile;

/// Keeps the end of a stream by its offsets; all of it goes to a file once it is too long.
#[derive(Debug)]
pub(super) struct OutputRing {
    room: usize,
    /// At most twice as long as the room.
    bytes: Vec<u8>,
    total: u64,
    spill: SpillFile,
}

/// A part of the stream up to its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RingTail {
    pub bytes: Vec<u8>,
    /// The offset that comes next.
    pub next: u64,
    /// How many of the bytes that were asked for are gone.
    pub lost: u64,
}

impl OutputRing {
    pub(super) fn new(limits: OutputLimits) -> Self {
        let OutputLimits { head, tail, spill, spill_cap } = limits;
        let spill = SpillFile::new(spill, spill_cap);
        Self { room: head.saturating_add(tail), bytes: Vec::new(), total: 0, spill }
    }

    /// Takes in the next bytes of the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if self.total > self.room as u64 {
            self.spill.write([&self.bytes], [bytes, &[]]);
        }
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > self.room.saturating_mul(2) {
            self.bytes.drain(..self.bytes.len() - self.room);
        }
    }

    /// Returns how many bytes there were.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the file that has the stream, if it was too long.
    pub(super) fn spill(&self) -> Option<OutputFile> {
        self.spill.kept()
    }

    /// Returns what came from `offset` on, as far as it is kept.
    pub(super) fn since(&self, offset: u64) -> RingTail {
        let from = offset.min(self.total);
        let wanted = self.total - from;
        let kept = wanted.min(self.bytes.len().min(self.room) as u64);
        let start = self.bytes.len().saturating_sub(usize::try_from(kept).unwrap_or(usize::MAX));
        RingTail {
            bytes: self.bytes.get(start..).unwrap_or_default().to_vec(),
            next: self.total,
            lost: wanted - kept,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;

    fn ring(room: usize, spill: Option<PathBuf>) -> OutputRing {
        OutputRing::new(OutputLimits { head: 0, tail: room, spill, spill_cap: 1000 })
    }

    proptest! {
        /// Whatever comes in whatever pieces: what is read is what was printed, or is counted as lost.
        #[test]
        fn reading_on_misses_nothing_silently(
            room in 1_usize..20,
            pieces in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..30), any::<bool>()), 0..30),
        ) {
            let mut ring = ring(room, None);
            let (mut printed, mut at) = (Vec::new(), 0_u64);
            for (piece, reads) in pieces {
                ring.push(&piece);
                printed.extend_from_slice(&piece);
                if !reads { continue }
                let part = ring.since(at);
                let start = usize::try_from(at + part.lost).unwrap();
                prop_assert_eq!(&part.bytes, &printed[start..]);
                prop_assert!(part.bytes.len() <= room);
                prop_assert!(part.lost == 0 || part.bytes.len() == room);
                prop_assert_eq!(part.next, printed.len() as u64);
                at = part.next;
            }
        }
    }

    #[test]
    fn an_offset_that_was_not_reached_reads_nothing() {
        let mut ring = ring(10, None);
        ring.push(b"abc");
        assert_eq!(ring.since(99), RingTail { bytes: Vec::new(), next: 3, lost: 0 });
    }

    #[test]
    fn a_stream_that_is_too_long_is_whole_in_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("job.log");
        let mut ring = ring(4, Some(path.clone()));
        ring.push(b"abcd");
        assert_eq!((ring.spill(), path.exists()), (None, false));
        ring.push(b"efg");
        ring.push(b"hijklmnop");
        assert_eq!(ring.spill(), Some(OutputFile { path: path.clone(), bytes: 16, missing: 0 }));
        assert_eq!(std::fs::read(path).unwrap(), b"abcdefghijklmnop");
    }
}
