//! Captured output of a process, in bounded memory.

use crow_core::capability::{CapturedOutput, OutputLimits};

use super::spill::SpillFile;

/// Keeps the beginning and the end of a stream; writes the whole stream to a file once it is too long for
/// both.
#[derive(Debug)]
pub(crate) struct OutputBuffer {
    /// Maximum sizes of head and tail, in bytes.
    room: (usize, usize),
    head: Vec<u8>,
    /// Last bytes of the stream; trimmed to its maximum size once it is twice as long.
    tail: Vec<u8>,
    total: u64,
    spill: SpillFile,
}

impl OutputBuffer {
    pub(super) fn new(limits: OutputLimits) -> Self {
        let OutputLimits { head, tail, spill, spill_cap } = limits;
        let spill = SpillFile::new(spill, spill_cap);
        Self { room: (head, tail), head: Vec::new(), tail: Vec::new(), total: 0, spill }
    }

    /// Adds the next bytes of the stream.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head_room, tail_room) = self.room;
        let (first, rest) =
            bytes.split_at(bytes.len().min(head_room.saturating_sub(self.head.len())));
        if self.is_long() {
            self.spill.write([&self.head, &self.tail], [first, rest]);
        }
        self.head.extend_from_slice(first);
        self.tail.extend_from_slice(rest);
        if self.tail.len() > tail_room.saturating_mul(2) {
            self.tail.drain(..self.tail.len() - tail_room);
        }
    }

    /// Returns the captured output.
    pub(crate) fn finish(mut self) -> CapturedOutput {
        let (_, tail_room) = self.room;
        if !self.is_long() {
            self.head.append(&mut self.tail);
        } else if self.tail.len() > tail_room {
            self.tail.drain(..self.tail.len() - tail_room);
        }
        let spill = self.spill.output_file();
        CapturedOutput { head: self.head, tail: self.tail, total: self.total, spill }
    }

    fn is_long(&self) -> bool {
        self.total > (self.room.0.saturating_add(self.room.1)) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crow_core::capability::OutputFile;

    use super::*;

    fn limits(head: usize, tail: usize, spill: Option<PathBuf>) -> OutputLimits {
        OutputLimits { head, tail, spill, spill_cap: 1000 }
    }

    fn feed(limits: OutputLimits, chunks: &[&[u8]]) -> CapturedOutput {
        let mut buffer = OutputBuffer::new(limits);
        for chunk in chunks {
            buffer.push(chunk);
        }
        buffer.finish()
    }

    #[test]
    fn output_that_fits_is_kept_whole() {
        let output = feed(limits(4, 4, None), &[b"abc", b"defgh"]);
        assert_eq!(
            (output.head.as_slice(), output.tail.as_slice()),
            (b"abcdefgh".as_slice(), b"".as_slice())
        );
        assert_eq!(output.omitted(), 0);
    }

    #[test]
    fn longer_output_keeps_head_and_tail_and_counts_the_rest() {
        for size in [1, 2, 3, 7, 100] {
            let text: Vec<u8> = (0..100).collect();
            let chunks: Vec<_> = text.chunks(size).collect();
            let output = feed(limits(4, 6, None), &chunks);
            assert_eq!(
                (output.head, output.tail, output.total),
                (text[..4].to_vec(), text[94..].to_vec(), 100)
            );
        }
    }

    #[test]
    fn the_spill_file_has_the_whole_stream_for_any_chunk_size() {
        let folder = tempfile::tempdir().unwrap();
        for size in [1, 3, 5, 8, 64] {
            let path = folder.path().join(format!("new/{size}.log"));
            let text: Vec<u8> = (0..64).collect();
            let chunks: Vec<_> = text.chunks(size).collect();
            let output = feed(limits(4, 6, Some(path.clone())), &chunks);
            assert_eq!(
                output.spill,
                Some(OutputFile { path: path.clone(), bytes: 64, missing: 0 })
            );
            assert_eq!(std::fs::read(path).unwrap(), text, "{size}");
        }
    }

    #[test]
    fn the_spill_file_is_capped_and_counts_missing_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let output = feed(limits(4, 6, Some(path.clone())), &[&[7; 300][..]; 20]);
        assert_eq!((output.total, std::fs::metadata(&path).unwrap().len()), (6000, 1000));
        assert_eq!(output.spill, Some(OutputFile { path, bytes: 1000, missing: 5000 }));
    }

    #[test]
    fn an_existing_spill_file_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["call.log", "call-2.log", "call-3.log"] {
            let output = feed(limits(4, 6, Some(folder.path().join("call.log"))), &[&[7; 100]]);
            let path = folder.path().join(name);
            assert_eq!(std::fs::read(&path).unwrap(), [7; 100]);
            assert_eq!(output.spill, Some(OutputFile { path, bytes: 100, missing: 0 }));
        }
    }

    #[test]
    fn output_is_captured_without_a_spill_file_that_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let output = feed(limits(4, 6, Some(folder.path().join("file/a.log"))), &[&[7; 100]]);
        assert_eq!((output.total, output.spill), (100, None));
    }

    #[test]
    fn output_that_fits_makes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        assert_eq!(feed(limits(4, 6, Some(path.clone())), &[b"0123456789"]).spill, None);
        assert!(!path.exists());
    }
}
