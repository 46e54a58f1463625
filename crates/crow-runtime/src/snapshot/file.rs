//! Reading a file of the project, whatever it has become since it was seen.

use std::{
    fs::OpenOptions,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use rustix::{fs::OFlags, io::Errno};

use super::FileStamp;

/// What was read.
#[derive(Debug)]
pub(super) enum ReadFile {
    /// All of it, and what the file system said before.
    Whole { bytes: Vec<u8>, stamp: FileStamp },
    /// It is larger than the limit.
    TooLarge,
    /// It is no file.
    Special,
}

/// Reads a file of at most `limit` bytes. Neither follows a link nor waits for the other end of a pipe.
pub(super) fn read_file(path: &Path, limit: u64) -> io::Result<ReadFile> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let opened = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path);
    let file = match opened {
        // It became a link.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => {
            return Ok(ReadFile::Special);
        }
        opened => opened?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(ReadFile::Special);
    }
    if metadata.len() > limit {
        return Ok(ReadFile::TooLarge);
    }
    // One byte more than expected, so that the end is seen with the first read.
    let mut bytes =
        Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0).saturating_add(1));
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Ok(ReadFile::TooLarge);
    }
    // It may have grown since it was asked; the stamp then differs from the next one, so that it is read again.
    let stamp = FileStamp { size: bytes.len() as u64, ..FileStamp::of(&metadata) };
    Ok(ReadFile::Whole { bytes, stamp })
}
