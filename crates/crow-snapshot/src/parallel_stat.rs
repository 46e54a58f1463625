//! A parallel first pass over all entries of the last scan. Unchanged entries are marked, and the walk does not stat
//! them again.

use std::{
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use crow_fs::{Directory, EntryKind, EntryName};

use super::{
    FileStamp,
    index::{IndexFolder, IndexItem, IndexItemKind},
};

/// Number of files worth a thread: starting one takes as long as a few hundred stats.
const WORTH_A_THREAD: usize = 500;
const MOST_THREADS: usize = 4;
/// Number of folders that a thread takes at a time.
const PORTION: usize = 8;
/// Records that an entry is unchanged. Valid for one walk, which consumes it.
#[derive(Debug, Default)]
pub(super) struct UnchangedMark(AtomicBool);

impl UnchangedMark {
    pub(super) fn take(&mut self) -> bool {
        std::mem::take(self.0.get_mut())
    }
}

/// Marks the unchanged entries on the file system `device` in a folder and below.
pub(super) fn mark_unchanged(path: &Path, folder: &IndexFolder, device: u64) {
    let mut folders = Vec::new();
    let items = collect(path, folder, &mut folders);
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let first = next.fetch_add(PORTION, Ordering::Relaxed);
            let Some(portion) = folders.get(first..) else { return };
            for (path, folder) in portion.iter().take(PORTION) {
                look_into(path, folder, device);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..(items / WORTH_A_THREAD).min(MOST_THREADS) {
            // Without another thread it only takes longer.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
}

/// Lists a folder and those below it, and returns the number of their entries.
fn collect<'a>(
    path: &Path,
    folder: &'a IndexFolder,
    folders: &mut Vec<(PathBuf, &'a IndexFolder)>,
) -> usize {
    folders.push((path.to_path_buf(), folder));
    let mut items = folder.items.len();
    for item in &folder.items {
        if let IndexItemKind::Folder { folder, .. } = &item.kind {
            items += collect(&path.join(&item.name), folder, folders);
        }
    }
    items
}

fn look_into(path: &Path, folder: &IndexFolder, device: u64) {
    let Ok(opened) = Directory::open(path) else { return };
    for item in &folder.items {
        let proven = is_same(&opened, item, device).unwrap_or(false);
        item.unchanged.0.store(proven, Ordering::Relaxed);
    }
}

fn is_same(folder: &Directory, item: &IndexItem, device: u64) -> io::Result<bool> {
    let now = folder.metadata_of(&item.name)?;
    let stamp = FileStamp::of_entry(&now);
    Ok(match &item.kind {
        IndexItemKind::File { stamp: seen, .. } => {
            now.kind == EntryKind::File && seen.proves_unchanged(&stamp)
        }
        IndexItemKind::Folder { folder, .. } => {
            now.kind == EntryKind::Directory
                && now.identity.device == device
                && folder.stamp.is_some_and(|seen| seen.proves_unchanged(&stamp))
        }
        IndexItemKind::Link { target } => {
            now.kind == EntryKind::Symlink
                && folder.read_link(&EntryName::new(&item.name)?)?.as_os_str() == target
        }
        IndexItemKind::New | IndexItemKind::Unscanned { .. } => false,
    })
}
