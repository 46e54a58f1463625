//! Reading a file of the project, which may have changed its kind since it was listed.

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
        // The file or a folder above it became a link: what is behind it is not at this path.
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
    // One byte more than expected, so that the first read also finds the end.
    let mut bytes =
        Vec::with_capacity(usize::try_from(metadata.size).unwrap_or(0).saturating_add(1));
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Ok(FileReadOutcome::TooLarge);
    }
    // The file may have grown since the stat; its stamp then differs at the next scan, so that it is read again.
    let stamp = FileStamp { size: bytes.len() as u64, ..FileStamp::of_entry(&metadata) };
    Ok(FileReadOutcome::Whole { bytes, stamp })
}
