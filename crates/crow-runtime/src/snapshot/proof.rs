//! The first look at all that the last scan saw, by several threads: what is still as it was is marked, and the walk
//! need not ask the file system for it again.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, FileType, Mode, OFlags, open, readlinkat, statat},
    io,
};

use super::{
    FileStamp,
    index::{Folder, Item, What},
};

/// Starting a thread takes as long as looking at some hundred files.
const WORTH_A_THREAD: usize = 500;
const MOST_THREADS: usize = 4;
/// So many folders are taken at a time.
const PORTION: usize = 8;
/// Opens a folder as a place for other paths to begin at, where the system knows that.
#[cfg(target_os = "linux")]
const ONLY_A_PLACE: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const ONLY_A_PLACE: OFlags = OFlags::RDONLY;

/// Whether something is still as it was. It holds for the walk that follows, and is taken by it.
#[derive(Debug, Default)]
pub(super) struct Proof(AtomicBool);

impl Proof {
    pub(super) fn take(&mut self) -> bool {
        std::mem::take(self.0.get_mut())
    }
}

/// Marks what is still as it was on the file system `device` below a folder.
pub(super) fn prove(path: &Path, folder: &Folder, device: u64) {
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
            // Without another thread it takes longer, nothing else.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
}

/// Lists a folder and those below it, and counts what is in them.
fn collect<'a>(path: &Path, folder: &'a Folder, folders: &mut Vec<(PathBuf, &'a Folder)>) -> usize {
    folders.push((path.to_path_buf(), folder));
    let mut items = folder.items.len();
    for item in &folder.items {
        if let What::Folder { folder, .. } = &item.what {
            items += collect(&path.join(&item.name), folder, folders);
        }
    }
    items
}

fn look_into(path: &Path, folder: &Folder, device: u64) {
    let flags = ONLY_A_PLACE | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(opened) = open(path, flags, Mode::empty()) else { return };
    for item in &folder.items {
        let proven = is_same(&opened, item, device).unwrap_or(false);
        item.proof.0.store(proven, Ordering::Relaxed);
    }
}

fn is_same(folder: &OwnedFd, item: &Item, device: u64) -> io::Result<bool> {
    let now = statat(folder, &item.name, AtFlags::SYMLINK_NOFOLLOW)?;
    let (stamp, kind) = (FileStamp::of_stat(&now), FileType::from_raw_mode(now.st_mode));
    Ok(match &item.what {
        What::File { seen, .. } => kind == FileType::RegularFile && seen.still(&stamp),
        What::Folder { folder, .. } => {
            kind == FileType::Directory
                && i128::from(now.st_dev) == i128::from(device)
                && folder.seen.is_some_and(|seen| seen.still(&stamp))
        }
        What::Link { target } => {
            kind == FileType::Symlink
                && readlinkat(folder, &item.name, Vec::new())?.as_bytes()
                    == target.as_encoded_bytes()
        }
        What::New | What::LeftOut { .. } => false,
    })
}
