//! Changes that others made to files which the agent has seen.
//!
//! [`FileViews`](crow_core::file_views::FileViews) has the hash of the content that the agent saw or wrote. A file is
//! hashed again only if its stamp (kind, size, times) differs from the one before. Files that a call of the agent itself
//! reported as changed are not told: whoever runs a formatter knows of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use crow_context::environment::ForeignChange;
use crow_core::file_views::{ContentHash, FileView};
use crow_fs::{EntryKind, EntryMetadata, FileIdentity};

/// Most files that are watched; of more, an arbitrary but constant choice.
const MOST_FILES: usize = 200;
/// Most bytes of a file that is hashed. Of larger ones only the stamp is compared.
const LARGEST_FILE: u64 = 4 * 1024 * 1024;

/// The files that an agent has seen, as they were at the last scan.
#[derive(Debug, Default)]
pub(super) struct SeenFiles {
    files: BTreeMap<PathBuf, WatchedFile>,
    /// Files that calls of the agent changed since the last scan.
    own_changes: BTreeSet<PathBuf>,
    /// True if calls since the last scan may have changed any file.
    has_unknown_changes: bool,
}

#[derive(Debug, Clone)]
struct WatchedFile {
    /// Hash of the content that the agent saw.
    seen: ContentHash,
    /// The stamp at the last scan; `None` if the file did not exist.
    stamp: Option<ContentStamp>,
    change: Option<ForeignChange>,
}

/// Metadata that changes with the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ContentStamp {
    identity: FileIdentity,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl SeenFiles {
    /// Records a file that a call of the agent changed.
    pub(super) fn on_own_change(&mut self, path: &Path) {
        self.own_changes.insert(path.to_path_buf());
    }

    /// Records that a call of the agent may have changed any file.
    pub(super) fn on_unknown_changes(&mut self) {
        self.has_unknown_changes = true;
    }

    /// Records that a call showed a file after its own changes.
    pub(super) fn on_view(&mut self, path: &Path) {
        self.own_changes.remove(path);
    }

    /// Looks at all files that were seen, and returns what others did to them. Reads files: blocks.
    pub(super) fn scan(&mut self, mut views: Vec<FileView>) -> Vec<(PathBuf, ForeignChange)> {
        views.sort_by(|one, other| one.path.cmp(&other.path));
        views.truncate(MOST_FILES);
        let own_changes = std::mem::take(&mut self.own_changes);
        let are_all_own = std::mem::take(&mut self.has_unknown_changes);
        let before = std::mem::take(&mut self.files);
        for view in views {
            let is_own = are_all_own || own_changes.contains(&view.path);
            let file = WatchedFile::look_at(&view, before.get(&view.path), is_own);
            self.files.insert(view.path, file);
        }
        let changed =
            self.files.iter().filter_map(|(path, file)| Some((path.clone(), file.change?)));
        changed.collect()
    }
}

impl WatchedFile {
    fn look_at(view: &FileView, before: Option<&Self>, is_own: bool) -> Self {
        let stamp = ContentStamp::of_path(&view.path);
        // A new view means that the agent saw the file again.
        let before = before.filter(|before| before.seen == view.hash);
        let change = match before {
            Some(before) if before.stamp == stamp => before.change,
            _ if is_own => None,
            _ => match stamp {
                None => Some(ForeignChange::Deleted),
                Some(stamp) if stamp.size > LARGEST_FILE => before.map(|_| ForeignChange::Modified),
                // A file that cannot be read is left alone: the tool that reads it will say why.
                Some(_) => match hash_of(&view.path) {
                    Ok(hash) if hash != view.hash => Some(ForeignChange::Modified),
                    Ok(_) | Err(_) => None,
                },
            },
        };
        Self { seen: view.hash.clone(), stamp, change }
    }
}

impl ContentStamp {
    fn of_path(path: &Path) -> Option<Self> {
        let metadata =
            crow_fs::metadata(path).ok().filter(|entry| entry.kind == EntryKind::File)?;
        let EntryMetadata { identity, size, modified, changed, .. } = metadata;
        Some(Self { identity, size, modified, changed })
    }
}

fn hash_of(path: &Path) -> io::Result<ContentHash> {
    let file: File = crow_fs::open_file(path)?;
    if EntryMetadata::of_file(&file)?.kind != EntryKind::File {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut content = Vec::new();
    file.take(LARGEST_FILE).read_to_end(&mut content)?;
    Ok(ContentHash::of_content(&content))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crow_core::ids::CallId;

    use super::*;

    fn view(path: &Path) -> FileView {
        let hash = ContentHash::of_content(&fs::read(path).unwrap());
        FileView { path: path.to_path_buf(), hash, lines: None, call_id: CallId::new("c") }
    }

    #[test]
    fn a_change_by_others_is_found_until_the_file_is_seen_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("a.rs");
        fs::write(&path, "one").unwrap();
        let (first, mut files) = (view(&path), SeenFiles::default());
        assert_eq!(files.scan(vec![first.clone()]), []);
        fs::write(&path, "other").unwrap();
        let modified = [(path.clone(), ForeignChange::Modified)];
        for _ in 0..2 {
            assert_eq!(files.scan(vec![first.clone()]), modified);
        }
        let second = view(&path);
        assert_eq!(files.scan(vec![second.clone()]), []);
        fs::remove_file(&path).unwrap();
        assert_eq!(files.scan(vec![second.clone()]), [(path.clone(), ForeignChange::Deleted)]);
        fs::write(&path, "other").unwrap();
        assert_eq!(files.scan(vec![second]), [], "the content is the one that was seen");
    }

    #[test]
    fn a_change_by_a_call_of_the_agent_is_not_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("a.rs");
        fs::write(&path, "one").unwrap();
        let (seen, mut files) = (view(&path), SeenFiles::default());
        assert_eq!(files.scan(vec![seen.clone()]), []);
        fs::write(&path, "formatted").unwrap();
        files.on_own_change(&path);
        for _ in 0..2 {
            assert_eq!(files.scan(vec![seen.clone()]), []);
        }
        fs::write(&path, "by another").unwrap();
        assert_eq!(files.scan(vec![seen]), [(path, ForeignChange::Modified)]);
    }

    #[test]
    fn a_file_that_was_only_touched_is_not_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("a.rs");
        fs::write(&path, "one").unwrap();
        let (seen, mut files) = (view(&path), SeenFiles::default());
        assert_eq!(files.scan(vec![seen.clone()]), []);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "one").unwrap();
        assert_eq!(files.scan(vec![seen]), []);
    }
}
