//! Files of a project: resolving their paths, recording each link on the way, and marks of their content.
//!
//! The path is walked component by component in a queue: a link puts the components of its target at the front. The
//! walk ends when it would leave the root, so `end` is always inside the project. A file has changed if its mark differs.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Read as _},
    path::{Component, Path, PathBuf},
};

use crow_fs::EntryMetadata;
use serde_json::Value;

/// Maximum number of links on the way.
const MOST_LINKS: usize = 16;

/// Result of following a path.
#[derive(Debug, Default)]
pub(super) struct PathTrail {
    /// Links on the way, and their targets.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// Final path and its metadata, if it exists in the project.
    pub(super) end: Option<(PathBuf, EntryMetadata)>,
}

/// Follows a path that is absolute, or relative to `base`, as far as it stays below `root`. Finds the same file as
/// the system.
pub(super) fn follow(root: &Path, base: &Path, path: &Path) -> PathTrail {
    let mut trail = PathTrail::default();
    let joined = base.join(path);
    // The path may name the project in another way, for example through a link above the root.
    let other = || joined.canonicalize().ok().and_then(|path| begin(root, &path));
    let Some((mut here, mut rest)) = begin(root, &joined).or_else(other) else { return trail };
    while let Some(part) = rest.pop_front() {
        if part.as_os_str() == ".." {
            if here != root {
                here.pop();
                continue;
            }
            // The path leaves the project; it may come back: `../project/tools/run`.
            let resolved = joined.canonicalize().ok().filter(|path| path.starts_with(root));
            let Some(resolved) = resolved else { return trail };
            let links = std::mem::take(&mut trail.links);
            let mut rest = follow(root, root, &resolved);
            rest.links.splice(..0, links);
            return rest;
        }
        let next = here.join(&part);
        let Ok(metadata) = crow_fs::metadata(&next) else { return trail };
        if !metadata.is_symlink() {
            here = next;
            continue;
        }
        let Ok(target) = crow_fs::read_link(&next) else { return trail };
        trail.links.push((next, target.clone()));
        if trail.links.len() > MOST_LINKS {
            return trail;
        }
        // A link: start again at the root, with the parts of its target before the remaining ones.
        let Some((from, parts)) = begin(root, &here.join(target)) else { return trail };
        here = from;
        rest = parts.into_iter().chain(rest).collect();
    }
    trail.end = crow_fs::metadata(&here).ok().map(|metadata| (here, metadata));
    trail
}

/// Splits an absolute path into the root and the components below it. Returns `None` if it is not below the root.
fn begin(root: &Path, path: &Path) -> Option<(PathBuf, VecDeque<PathBuf>)> {
    let below = path.strip_prefix(root).ok()?;
    let parts = below.components().filter_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    Some((root.to_path_buf(), parts.collect()))
}

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
pub(super) fn read_mark(path: &Path) -> io::Result<FileMark> {
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
