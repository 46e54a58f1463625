//! By what a file is known again.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use crow_fs::EntryMetadata;
use serde_json::Value;

/// A larger file is known by its stamp: reading it would take longer than the whole check may.
const LARGEST_HASHED: u64 = 8 * 1024 * 1024;
/// The largest text in which names of further files are looked for.
const LARGEST_TEXT: usize = 256 * 1024;
/// What of a `package.json` says which code runs. Lists of dependencies change with each installation, and what they bring
/// is not watched.
const RUNS: &[&str] = &["scripts", "main", "module", "bin", "type", "imports", "exports", "config"];

/// What was read of a file.
#[derive(Debug)]
pub(super) struct FileMark {
    /// By what it is known again.
    pub(super) mark: String,
    /// Whether it can be executed.
    pub(super) is_executable: bool,
    /// Its text, if it is a small one.
    pub(super) text: Option<String>,
    /// How many bytes were read.
    pub(super) read: u64,
}

/// Reads a file, if it is one. A link is not followed, and a pipe does not block.
pub(super) fn read(path: &Path) -> io::Result<FileMark> {
    let file = crow_fs::open_file(path)?;
    let metadata = EntryMetadata::of_file(&file)?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let is_executable = metadata.mode & 0o111 != 0;
    let kind = if is_executable { "program" } else { "file" };
    if metadata.size > LARGEST_HASHED {
        // The time of the last change of the inode cannot be set by programs.
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
    // A file that grows while it is read is another one afterwards.
    file.take(LARGEST_HASHED + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns what of a `package.json` says which code runs.
fn running_part(bytes: &[u8]) -> Option<String> {
    let Value::Object(mut package) = serde_json::from_slice(bytes).ok()? else { return None };
    package.retain(|key, _| RUNS.contains(&key.as_str()));
    serde_json::to_string(&package).ok()
}
