//! Reading a file of the project, whatever it has become since it was seen.

use std::{
    io::{self, Read as _},
    path::Path,
};

use crow_fs::{EntryKind, EntryMetadata};

use super::FileStamp;

/// The result of reading a file.
#[derive(Debug)]
pub(super) enum FileReadOutcome {
    /// Its whole content, and its stamp from before the read.
    Whole { bytes: Vec<u8>, stamp: FileStamp },
    /// It is larger than the limit.
    TooLarge,
    /// It is not a regular file.
    Special,
}

/// Reads a file of at most `limit` bytes. Neither follows a link nor waits for the other end of a pipe.
pub(super) fn read_file(path: &Path, limit: u64) -> io::Result<FileReadOutcome> {
    let file = match crow_fs::open_file(path) {
        // It became a link, or a folder on the way did: what is behind it is not at this path.
        Err(error) if crow_fs::is_link_error(&error) => return Ok(FileReadOutcome::Special),
        opened => opened?,
    };
    let metadata = EntryMetadata::of_file(&file)?;
    if metadata.kind != EntryKind::File {
        return Ok(FileReadOutcome::Special);
    }
    if metadata.size > limit {
        return Ok(FileReadOutcome::TooLarge);
    }
    // One byte more than expected, so that the end is seen with the first read.
    let mut bytes =
        Vec::with_capacity(usize::try_from(metadata.size).unwrap_or(0).saturating_add(1));
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Ok(FileReadOutcome::TooLarge);
    }
    // It may have grown since it was asked; the stamp then differs from the next one, so that it is read again.
    let stamp = FileStamp { size: bytes.len() as u64, ..FileStamp::of_entry(&metadata) };
    Ok(FileReadOutcome::Whole { bytes, stamp })
}
