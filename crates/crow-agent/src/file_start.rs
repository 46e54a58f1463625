//! The beginning of a file.

use std::{
    io::{self, Read as _},
    path::Path,
};

use crow_fs::{EntryKind, EntryMetadata};

/// Reads at most `most` bytes of a regular file by its resolved path. Fails if a link appeared since the path was
/// resolved. Blocks.
pub(crate) fn read_start(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = crow_fs::open_file(path)?;
    if EntryMetadata::of_file(&file)?.kind != EntryKind::File {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
