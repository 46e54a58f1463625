//! Ring buffer for the end of a stream that is read while it grows.

use crow_core::capability::{OutputFile, OutputLimits};

use super::spill::SpillFile;

/// Keeps the last bytes of a stream, addressed by stream offset; writes the whole stream to a file once it
/// is too long.
#[derive(Debug)]
pub(super) struct OutputRing {
    room: usize,
    /// Last bytes of the stream; trimmed to `room` once it is twice as long.
    bytes: Vec<u8>,
    total: u64,
    spill: SpillFile,
}

/// Part of the stream from some offset to its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RingTail {
    pub bytes: Vec<u8>,
    /// Offset for the next read.
    pub next: u64,
    /// Number of requested bytes that are no longer in memory.
    pub lost: u64,
}

impl OutputRing {
    pub(super) fn new(limits: OutputLimits) -> Self {
        let OutputLimits { head, tail, spill, spill_cap } = limits;
        let spill = SpillFile::new(spill, spill_cap);
        Self { room: head.saturating_add(tail), bytes: Vec::new(), total: 0, spill }
    }

    /// Adds the next bytes of the stream.
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

    /// Returns the number of bytes received so far.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the file with the whole stream, if it was too long for memory.
    pub(super) fn spill(&self) -> Option<OutputFile> {
        self.spill.output_file()
    }

    /// Returns the bytes from `offset` on, as far as they are still in memory.
    pub(super) fn since(&self, offset: u64) -> RingTail {
        let from = offset.min(self.total);
        let wanted = self.total - from;
        let available = wanted.min(self.bytes.len().min(self.room) as u64);
        let start =
            self.bytes.len().saturating_sub(usize::try_from(available).unwrap_or(usize::MAX));
        RingTail { bytes: self.bytes[start..].to_vec(), next: self.total, lost: wanted - available }
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
        /// For any chunks and read times, what is read equals what was printed or is counted as lost.
        #[test]
        fn incremental_reads_report_every_lost_byte(
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
    fn an_offset_beyond_the_end_reads_nothing() {
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
