//! Marks of files: a file has changed if its mark differs.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use crow_fs::EntryMetadata;
use serde_json::Value;

/// Maximum size of hashed files, in bytes. Larger ones are marked by size, inode and change time: reading them would
/// exceed the time of the whole check.
const LARGEST_HASHED: u64 = 8 * 1024 * 1024;
/// Maximum size of a text that is searched for names of further files, in bytes.
const LARGEST_TEXT: usize = 256 * 1024;
/// Keys of `package.json` that decide which code runs. Dependency lists change with each installation, and installed
/// packages are not watched.
const RUNS: &[&str] = &["scripts", "main", "module", "bin", "type", "imports", "exports", "config"];

/// Mark of a file, with its text.
#[derive(Debug)]
pub(super) struct FileMark {
    /// Mark that changes when the file changes.
    pub(super) mark: String,
    /// True if it has an execute bit.
    pub(super) is_executable: bool,
    /// Text, if the file is small and UTF-8.
    pub(super) text: Option<String>,
    /// Number of bytes read.
    pub(super) read: u64,
}

/// Reads a regular file. Does not follow a link, and does not block on a pipe.
pub(super) fn read(path: &Path) -> io::Result<FileMark> {
    let file = crow_fs::open_file(path)?;
    let metadata = EntryMetadata::of_file(&file)?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let is_executable = metadata.mode & 0o111 != 0;
    let kind = if is_executable { "program" } else { "file" };
    if metadata.size > LARGEST_HASHED {
        // Programs cannot set the change time of an inode.
        let (size, inode) = (metadata.size, metadata.identity.inode);
        let changed = format!("{}.{}", metadata.changed.0, metadata.changed.1);
        let mark = format!("{kind} of {size} bytes, inode {inode}, changed {changed}");
        return Ok(FileMark { mark, is_executable, text: None, read: 0 });
    }
    let bytes = bytes(file)?;
    let is_package = path.file_name().is_some_and(|name| name == "package.json");
    let hash = match is_package.then(|| running_part(&bytes)).flatten() {
        Some(part) => blake3::hash(part.as_bytes()),
        None => blake3::hash(&bytes),
    };
    let (mark, read) = (format!("{kind} {}", hash.to_hex()), bytes.len() as u64);
    let text = (bytes.len() <= LARGEST_TEXT).then(|| String::from_utf8(bytes).ok()).flatten();
    Ok(FileMark { mark, is_executable, text, read })
}

fn bytes(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // A file that grows during reading has another mark afterwards.
    file.take(LARGEST_HASHED + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the parts of a `package.json` that decide which code runs.
fn running_part(bytes: &[u8]) -> Option<String> {
    let Value::Object(mut package) = serde_json::from_slice(bytes).ok()? else { return None };
    package.retain(|key, _| RUNS.contains(&key.as_str()));
    serde_json::to_string(&package).ok()
}
