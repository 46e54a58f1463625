//! What a process prints, in bounded memory.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use crow_core::capability::{CapturedOutput, OutputLimits};

/// Keeps the beginning and the end of a stream; all of it goes to a file once it is too long for both.
#[derive(Debug)]
pub(crate) struct OutputBuffer {
    limits: OutputLimits,
    head: Vec<u8>,
    /// At most twice as long as the limit; only its end is kept.
    tail: Vec<u8>,
    total: u64,
    spill: Option<Spill>,
}

#[derive(Debug)]
struct Spill {
    path: PathBuf,
    file: File,
    room: u64,
}

impl OutputBuffer {
    pub(crate) fn new(limits: OutputLimits) -> Self {
        Self { limits, head: Vec::new(), tail: Vec::new(), total: 0, spill: None }
    }

    /// Takes in the next bytes of the stream.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) =
            bytes.split_at(bytes.len().min(self.limits.head.saturating_sub(self.head.len())));
        self.head.extend_from_slice(first);
        if self.total > (self.limits.head + self.limits.tail) as u64 {
            self.spill(first, rest);
        }
        self.tail.extend_from_slice(rest);
        if self.tail.len() > self.limits.tail.saturating_mul(2) {
            self.tail.drain(..self.tail.len() - self.limits.tail);
        }
    }

    /// Returns what is kept.
    pub(crate) fn finish(mut self) -> CapturedOutput {
        if self.total <= (self.limits.head + self.limits.tail) as u64 {
            self.head.append(&mut self.tail);
        } else if self.tail.len() > self.limits.tail {
            self.tail.drain(..self.tail.len() - self.limits.tail);
        }
        CapturedOutput {
            head: self.head,
            tail: self.tail,
            total: self.total,
            spill: self.spill.map(|spill| spill.path),
        }
    }

    /// Writes on to the file. A file that cannot be written to its end is removed, so that it does not fill the disk for
    /// nothing; the result then names none.
    fn spill(&mut self, first: &[u8], rest: &[u8]) {
        let written = match (&mut self.spill, self.limits.spill.take()) {
            (Some(spill), _) => spill.write_all([first, rest]),
            (None, None) => return,
            (None, Some(path)) => {
                // Everything before these bytes is still in memory: the head without them, then the tail.
                let earlier = self.head.get(..self.head.len() - first.len()).unwrap_or_default();
                Spill::create(&path, self.limits.spill_cap).and_then(|spill| {
                    self.spill.insert(spill).write_all([earlier, first, &self.tail, rest])
                })
            }
        };
        if let Err(error) = written {
            tracing::warn!(%error, "the whole output cannot be kept");
            if let Some(spill) = self.spill.take()
                && let Err(error) = std::fs::remove_file(&spill.path)
            {
                tracing::warn!(path = %spill.path.display(), %error, "a part of the output stays behind");
            }
        }
    }
}

impl Spill {
    fn create(path: &Path, cap: u64) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        Ok(Self { path: path.to_path_buf(), file, room: cap })
    }

    fn write_all<const N: usize>(&mut self, parts: [&[u8]; N]) -> io::Result<()> {
        for bytes in parts {
            let fits = usize::try_from(self.room).unwrap_or(usize::MAX).min(bytes.len());
            self.file.write_all(bytes.get(..fits).unwrap_or_default())?;
            self.room -= fits as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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
    fn of_longer_output_beginning_and_end_are_kept_and_the_rest_is_counted() {
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
    fn the_file_holds_the_whole_stream_however_it_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        for size in [1, 3, 5, 8, 64] {
            let path = folder.path().join(format!("new/{size}.log"));
            let text: Vec<u8> = (0..64).collect();
            let chunks: Vec<_> = text.chunks(size).collect();
            let output = feed(limits(4, 6, Some(path.clone())), &chunks);
            assert_eq!(output.spill.as_deref(), Some(path.as_path()));
            assert_eq!(std::fs::read(path).unwrap(), text, "{size}");
        }
    }

    #[test]
    fn the_file_is_capped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let output = feed(limits(4, 6, Some(path.clone())), &[&[7; 5000]]);
        assert_eq!((output.total, std::fs::metadata(path).unwrap().len()), (5000, 1000));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_done_without() {
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
