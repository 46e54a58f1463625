//! Sockets in files that other programs listen at.
//!
//! The kernel lists the sockets of one network namespace in `/proc/net/unix`. Containers and confined services have
//! others, and a socket in a file is reached from all of them: so the list of every namespace is read in which a process
//! is. Which namespace a process is in is told by the inode of its list, which everybody may see, in contrast to the
//! namespace itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Read as _},
    os::unix::fs::{DirEntryExt as _, FileTypeExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long a process is taken to be in the namespace in which it was found. It may have moved to another one since.
const TRUSTED_FOR: Duration = Duration::from_secs(10);
/// Most lists are shorter.
const LIST_BYTES: usize = 32 << 10;

/// Finds sockets, and remembers the network namespaces of processes.
#[derive(Debug, Default)]
pub(super) struct SocketFinder {
    processes: Mutex<BTreeMap<u32, KnownProcess>>,
}

/// A process by its number and the inode of its directory: another one with the number has another inode.
#[derive(Debug, Clone, Copy)]
struct KnownProcess {
    inode: u64,
    list: u64,
    seen: Instant,
}

impl SocketFinder {
    /// Returns all sockets that have a path here, sorted.
    pub(super) fn find(&self) -> BTreeSet<PathBuf> {
        let mut lists = self.lists_of_others().unwrap_or_else(|error| {
            tracing::warn!(%error, "sockets of other network namespaces are not found");
            BTreeMap::new()
        });
        let own = PathBuf::from("/proc/net/unix");
        if let Ok(inode) = inode(&own) {
            lists.insert(inode, vec![own]);
        }
        let mut paths = BTreeSet::new();
        for same in lists.values() {
            // A list is gone with its process: any other one in the namespace will do.
            if let Some(listed) = same.iter().find_map(|list| read(list).ok()) {
                paths.extend(listed_paths(&String::from_utf8_lossy(&listed)));
            }
        }
        let real =
            paths.into_iter().filter_map(|path| crow_fs::canonicalize(Path::new(&path)).ok());
        real.filter(|path| {
            fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket())
        })
        .collect()
    }

    /// Returns where to read the list of each namespace in which a process is, by its inode.
    fn lists_of_others(&self) -> io::Result<BTreeMap<u64, Vec<PathBuf>>> {
        let mut known = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = BTreeMap::new();
        let mut lists: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
        for entry in fs::read_dir("/proc")? {
            let entry = entry?;
            let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let process = known.get(&number).filter(|process| {
                process.inode == entry.ino() && process.seen.elapsed() < TRUSTED_FOR
            });
            let process = match process {
                Some(process) => *process,
                None => match inode(&list_of(number)) {
                    Ok(list) => KnownProcess { inode: entry.ino(), list, seen: Instant::now() },
                    // It has ended, or belongs to the kernel.
                    Err(_) => continue,
                },
            };
            now.insert(number, process);
            lists.entry(process.list).or_default().push(list_of(number));
        }
        *known = now;
        Ok(lists)
    }
}

fn list_of(process: u32) -> PathBuf {
    format!("/proc/{process}/net/unix").into()
}

/// Reads a list. Its length is not known before, and each read of it costs as much as many lines.
fn read(list: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(LIST_BYTES);
    fs::File::open(list)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn inode(path: &Path) -> io::Result<u64> {
    fs::metadata(path).map(|data| data.ino())
}

/// Returns the paths in a list. They are its last column, and may hold blanks.
fn listed_paths(listed: &str) -> impl Iterator<Item = String> {
    listed
        .lines()
        .filter_map(|line| line.find(" /").and_then(|at| line.get(at + 1..)))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn sockets_are_found_however_many_there_are_and_while_processes_are_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let paths: Vec<_> = (0..200).map(|number| folder.join(format!("{number} x"))).collect();
        let _listeners: Vec<_> =
            paths.iter().map(|path| UnixListener::bind(path).unwrap()).collect();
        let finder = SocketFinder::default();
        for _ in 0..2 {
            let found = finder.find();
            assert!(paths.iter().all(|path| found.contains(path)));
        }
        assert!(finder.processes.lock().unwrap().contains_key(&std::process::id()));
    }
}
