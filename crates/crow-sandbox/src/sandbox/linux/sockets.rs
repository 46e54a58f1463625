//! Socket files on which programs outside of the session's sandbox listen.
//!
//! A socket file can be connected to from every network namespace, and through read-only mounts as well. So
//! commands are kept from it by a file mounted over it, for which its path must be known. The kernel does
//! not report paths, so the search works as follows:
//!
//! 1. List all sockets bound to files, in all network namespaces that contain a process, except the
//!    session's own: sockets there were opened by its commands.
//! 2. Find the path of each: the name passed to `bind`, relative to the directory of a process if
//!    necessary; else a file beside that, since some programs rename what they have bound; else a file with
//!    that device and inode anywhere in what commands can change, where they may have moved it themselves.
//!
//! Paths are cached, and looked for again when the file is gone or has got more hard links.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Read as _},
    os::unix::fs::{DirEntryExt as _, FileTypeExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{
    session_processes,
    socket_list::{self, BoundSocket, SeenFile, SocketFile, device},
};

/// Time for which a process's network namespace is cached. It may change its namespace meanwhile.
const TRUSTED_FOR: Duration = Duration::from_secs(10);
/// Time for which a file is not searched again after it was nowhere in what commands can change: it was
/// removed, as a rule.
const MISSING_FOR: Duration = Duration::from_mins(1);
/// Initial buffer size for a list, in bytes; most lists are shorter.
const LIST_BYTES: usize = 32 << 10;
/// Magic numbers of filesystems whose `stat` reports other devices or inodes than the kernel's lists:
/// overlay, btrfs, bcachefs, FUSE.
const OWN_DEVICES: [u32; 4] = [0x794c_7630, 0x9123_683e, 0xca45_1a4e, 0x6573_5546];

/// Finds socket files. Caches the network namespaces of processes and the paths of files.
#[derive(Debug, Default)]
pub(super) struct SocketFinder {
    processes: Mutex<BTreeMap<u32, KnownProcess>>,
    located: Mutex<SocketPaths>,
}

/// Process identified by number and by the inode of its `/proc` directory, which differs if the number is
/// reused.
#[derive(Debug, Clone, Copy)]
struct KnownProcess {
    inode: u64,
    list: u64,
    seen: Instant,
}

/// Paths of sockets from the last search.
#[derive(Debug, Default)]
struct SocketPaths {
    /// Paths by the inode of the namespace's list and the socket.
    paths: BTreeMap<(u64, BoundSocket), Vec<(PathBuf, SeenFile)>>,
    /// Files that a full search did not find, with its time.
    missing: BTreeMap<SocketFile, Instant>,
}

/// Session whose own sockets are left out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Session<'a> {
    /// Inode of the socket list of its own network. `None` if its commands share the network of this
    /// program.
    pub list: Option<u64>,
    /// Paths that commands can change.
    pub changeable_paths: &'a [PathBuf],
}

/// Sockets of one network namespace, and the processes in it.
struct Namespace {
    list: u64,
    sockets: BTreeSet<BoundSocket>,
    processes: Vec<u32>,
    directories: OnceCell<BTreeSet<PathBuf>>,
}

impl SocketFinder {
    /// Returns the paths of all sockets that a command could reach here and that are not the session's own,
    /// sorted.
    pub(super) fn find(&self, session: &Session<'_>) -> BTreeSet<PathBuf> {
        let mut known = self.located.lock().unwrap_or_else(PoisonError::into_inner);
        known.missing.retain(|_, since| since.elapsed() < MISSING_FOR);
        // 1) Each listed socket keeps its cached paths while they are valid; others are located anew.
        let mut paths_before = std::mem::take(&mut known.paths);
        let (mut located, mut pending) = (BTreeMap::new(), Vec::new());
        for namespace in self.namespaces(session) {
            for socket in &namespace.sockets {
                let key = (namespace.list, socket.clone());
                let is_missing = |paths: &Vec<_>| {
                    let file = socket.file.as_ref();
                    paths.is_empty() && file.is_some_and(|file| known.missing.contains_key(file))
                };
                let remembered = paths_before.remove(&key);
                let remembered = remembered.filter(|paths| are_valid(paths) || is_missing(paths));
                let paths = remembered.unwrap_or_else(|| {
                    let (paths, missing) = locate(&namespace, socket);
                    pending.extend(missing.map(|file| (key.clone(), file)));
                    paths
                });
                located.insert(key, paths);
            }
        }
        // 2) One walk for all sockets that were not found near their names.
        search(session.changeable_paths, pending, &mut located, &mut known.missing);
        known.paths = located;
        without_own(&known, session)
    }

    /// Lists the sockets of all namespaces except the session's own.
    fn namespaces(&self, session: &Session<'_>) -> Vec<Namespace> {
        let mut lists = self.lists().unwrap_or_else(|error| {
            tracing::warn!(%error, "sockets of other network namespaces are not found");
            BTreeMap::new()
        });
        if let Some(own) = session.list {
            lists.remove(&own);
        }
        let here = Path::new("/proc/net/unix");
        let here_inode = inode(here).unwrap_or(0);
        let mut found = Vec::new();
        let namespace = |list, sockets, processes| Namespace {
            list,
            sockets,
            processes,
            directories: OnceCell::new(),
        };
        let sockets = socket_list::ask().map(BTreeSet::from_iter).or_else(|error| {
            tracing::debug!(%error, "files of sockets are told by their names alone");
            read(here)
        });
        if let Ok(sockets) = sockets {
            let processes = lists.remove(&here_inode).unwrap_or_default();
            found.push(namespace(here_inode, sockets, processes));
        }
        for (list, processes) in lists {
            // A list vanishes with its process, so any other process of the namespace is tried.
            if let Some(sockets) =
                processes.iter().find_map(|process| read(&list_of(*process)).ok())
            {
                found.push(namespace(list, sockets, processes));
            }
        }
        found
    }

    /// Returns the processes of each network namespace, by the inode of its list.
    fn lists(&self) -> io::Result<BTreeMap<u64, Vec<u32>>> {
        let mut known = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = BTreeMap::new();
        let mut lists: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
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
                    // It has ended, or is a kernel thread.
                    Err(_) => continue,
                },
            };
            now.insert(number, process);
            lists.entry(process.list).or_default().push(number);
        }
        *known = now;
        Ok(lists)
    }
}

/// Removes sockets of the session's commands, if they share the network of this program.
fn without_own(known: &SocketPaths, session: &Session<'_>) -> BTreeSet<PathBuf> {
    let own = OnceCell::new();
    let is_own = |socket: &BoundSocket, path: &Path| {
        session.list.is_none()
            && session.changeable_paths.iter().any(|place| path.starts_with(place))
            && socket
                .number
                .is_some_and(|number| own.get_or_init(session_processes::sockets).contains(&number))
    };
    let found = known
        .paths
        .iter()
        .flat_map(|((_, socket), paths)| paths.iter().map(move |(path, _)| (socket, path)));
    found.filter(|(socket, path)| !is_own(socket, path)).map(|(_, path)| path.clone()).collect()
}

impl Namespace {
    /// Returns the working directories of the processes, as far as they are readable.
    fn directories(&self) -> &BTreeSet<PathBuf> {
        self.directories.get_or_init(|| {
            let links = self.processes.iter().map(|process| format!("/proc/{process}/cwd"));
            links.filter_map(|link| fs::read_link(link).ok()).collect()
        })
    }

    /// Returns the file of a socket as a process of that namespace sees it: in a container the path differs
    /// from the one here.
    fn file_inside(&self, name: &Path) -> Option<SocketFile> {
        let folder = if name.is_absolute() { "root" } else { "cwd" };
        let below = name.strip_prefix("/").unwrap_or(name);
        let mut seen = self.processes.iter().filter_map(|process| {
            SeenFile::at(&Path::new("/proc").join(process.to_string()).join(folder).join(below))
        });
        seen.next().map(|seen| seen.file)
    }
}

/// Returns the inode of the socket list of a process's network namespace.
pub(super) fn list_inode(process: u32) -> io::Result<u64> {
    inode(&list_of(process))
}

fn list_of(process: u32) -> PathBuf {
    format!("/proc/{process}/net/unix").into()
}

/// Reads a list. Its length is unknown beforehand, and each `read` costs as much as many lines, so the
/// buffer is large.
fn read(list: &Path) -> io::Result<BTreeSet<BoundSocket>> {
    let mut bytes = Vec::with_capacity(LIST_BYTES);
    fs::File::open(list)?.read_to_end(&mut bytes)?;
    Ok(socket_list::read(&bytes).collect())
}

fn inode(path: &Path) -> io::Result<u64> {
    fs::metadata(path).map(|data| data.ino())
}

/// Returns true if all cached paths still show the same file, and it has no other hard links.
fn are_valid(paths: &[(PathBuf, SeenFile)]) -> bool {
    !paths.is_empty()
        && paths.iter().all(|(path, seen)| SeenFile::at(path) == Some(*seen))
        && has_all_names(paths)
}

fn has_all_names(paths: &[(PathBuf, SeenFile)]) -> bool {
    let Some((_, seen)) = paths.first() else { return false };
    usize::try_from(seen.names).is_ok_and(|names| names <= paths.len())
}

/// Looks for a socket at its name, and in the same directory. Also returns the file, if a full search is needed.
fn locate(
    namespace: &Namespace,
    socket: &BoundSocket,
) -> (Vec<(PathBuf, SeenFile)>, Option<SocketFile>) {
    let named: BTreeSet<PathBuf> = if socket.name.is_absolute() {
        BTreeSet::from([socket.name.clone()])
    } else {
        namespace.directories().iter().map(|directory| directory.join(&socket.name)).collect()
    };
    let file = socket.file.or_else(|| namespace.file_inside(&socket.name));
    let real = named.iter().filter_map(|path| crow_fs::canonicalize(path).ok());
    let real = real.collect::<BTreeSet<_>>().into_iter();
    let mut paths: Vec<_> = real
        .filter_map(|path| SeenFile::at(&path).map(|seen| (path, seen)))
        .filter(|(_, seen)| file.is_none_or(|file| !is_other_file(seen.file, file)))
        .collect();
    let Some(file) = file else { return (paths, None) };
    let is_found = |paths: &[(PathBuf, SeenFile)]| {
        has_all_names(paths) && paths.iter().any(|(_, seen)| seen.file.inode == file.inode)
    };
    if !is_found(&paths) {
        for folder in named.iter().filter_map(|path| path.parent()) {
            let Ok(folder) = crow_fs::canonicalize(folder) else { continue };
            let beside =
                sockets_in(&folder).filter(|(path, seen)| is_same_file(path, seen.file, file));
            add(&mut paths, beside);
        }
    }
    let missing = (!is_found(&paths)).then_some(file);
    (paths, missing)
}

/// Searches all places for the pending files, except those that a recent search did not find.
fn search(
    places: &[PathBuf],
    pending: Vec<((u64, BoundSocket), SocketFile)>,
    located: &mut BTreeMap<(u64, BoundSocket), Vec<(PathBuf, SeenFile)>>,
    missing: &mut BTreeMap<SocketFile, Instant>,
) {
    let pending: Vec<_> =
        pending.into_iter().filter(|(_, file)| !missing.contains_key(file)).collect();
    let mut sockets = Vec::new();
    let is_left = !pending.is_empty();
    for place in places.iter().filter(|_| is_left) {
        let Ok(place) = &crow_fs::canonicalize(place) else { continue };
        let is_possible = |(_, file): &(_, SocketFile)| {
            fs::metadata(place).is_ok_and(|data| device(data.dev()) == file.device)
                || has_own_devices(place)
        };
        if pending.iter().any(is_possible) {
            walk(place, &mut sockets);
        }
    }
    for (key, file) in pending {
        let same =
            sockets.iter().filter(|(path, seen)| is_same_file(path, seen.file, file)).cloned();
        let paths = located.entry(key).or_default();
        add(paths, same);
        if !has_all_names(paths) {
            missing.insert(file, Instant::now());
        }
    }
}

fn add(to: &mut Vec<(PathBuf, SeenFile)>, found: impl Iterator<Item = (PathBuf, SeenFile)>) {
    for (path, seen) in found {
        if to.iter().all(|(known, _)| *known != path) {
            to.push((path, seen));
        }
    }
}

/// Finds the sockets below a folder, on the same filesystem.
fn walk(place: &Path, found: &mut Vec<(PathBuf, SeenFile)>) {
    let Ok(top) = fs::symlink_metadata(place) else { return };
    let mut folders = vec![place.to_owned()];
    while let Some(folder) = folders.pop() {
        let is_here = fs::symlink_metadata(&folder)
            .is_ok_and(|data| data.is_dir() && data.dev() == top.dev());
        if !is_here {
            continue;
        }
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_socket() => {
                    let path = entry.path();
                    found.extend(SeenFile::at(&path).map(|seen| (path, seen)));
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
}

fn sockets_in(folder: &Path) -> impl Iterator<Item = (PathBuf, SeenFile)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sockets = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()));
    sockets.filter_map(|entry| SeenFile::at(&entry.path()).map(|seen| (entry.path(), seen)))
}

/// Returns true if the file seen at `path` is the listed one. Compares inodes only, where devices are not
/// comparable.
fn is_same_file(path: &Path, seen: SocketFile, listed: SocketFile) -> bool {
    seen.inode == listed.inode && (seen.device == listed.device || has_own_devices(path))
}

/// Returns true if the file seen is certainly another one than the listed one.
fn is_other_file(seen: SocketFile, listed: SocketFile) -> bool {
    seen.device == listed.device && seen.inode != listed.inode
}

fn has_own_devices(path: &Path) -> bool {
    rustix::fs::statfs(path)
        .is_ok_and(|data| u32::try_from(data.f_type).is_ok_and(|kind| OWN_DEVICES.contains(&kind)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    const NO_SESSION: Session<'static> = Session { list: None, changeable_paths: &[] };

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        (folder, path)
    }

    #[test]
    fn many_sockets_are_found_with_and_without_cached_processes() {
        let (_folder, folder) = folder();
        let paths: Vec<_> = (0..200).map(|number| folder.join(format!("{number} x"))).collect();
        let _listeners: Vec<_> =
            paths.iter().map(|path| UnixListener::bind(path).unwrap()).collect();
        let finder = SocketFinder::default();
        for _ in 0..2 {
            let found = finder.find(&NO_SESSION);
            assert!(paths.iter().all(|path| found.contains(path)));
        }
        assert!(finder.processes.lock().unwrap().contains_key(&std::process::id()));
    }

    #[test]
    fn renamed_and_moved_sockets_are_found() {
        let (_folder, folder) = folder();
        fs::create_dir_all(folder.join("a/b")).unwrap();
        let _listeners = ["x", "y", "z"].map(|name| UnixListener::bind(folder.join(name)).unwrap());
        fs::rename(folder.join("x"), folder.join("renamed")).unwrap();
        fs::rename(folder.join("y"), folder.join("a/b/moved")).unwrap();
        fs::hard_link(folder.join("z"), folder.join("a/second")).unwrap();
        let places = [folder.clone()];
        let finder = SocketFinder::default();
        let find = || {
            let mut found = finder.find(&Session { list: None, changeable_paths: &places });
            found.retain(|path| path.starts_with(&folder));
            found.into_iter().collect::<Vec<_>>()
        };
        let expected = |names: [&str; 4]| names.map(|name| folder.join(name));
        assert_eq!(find(), expected(["a/b/moved", "a/second", "renamed", "z"]));
        fs::rename(folder.join("a"), folder.join("other")).unwrap();
        assert_eq!(find(), expected(["other/b/moved", "other/second", "renamed", "z"]));
    }

    #[tokio::test]
    async fn a_socket_file_without_a_listener_is_ignored() {
        let (_folder, folder) = folder();
        drop(UnixListener::bind(folder.join("left")).unwrap());
        let places = [folder.clone()];
        let session = Session { list: None, changeable_paths: &places };
        // A process that another test starts holds the listener until its program begins.
        crow_testkit::wait_until(|| {
            !SocketFinder::default().find(&session).contains(&folder.join("left"))
        })
        .await;
    }
}
