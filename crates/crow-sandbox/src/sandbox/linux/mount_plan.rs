//! What a command sees where: the mounts that are laid over the system's own.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{CString, OsStr},
    fs, io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use super::{
    super::autorun::SealedMounts,
    hidden_places::{HiddenPlace, HiddenPlaces},
    mount_steps::{HELD, MountStep},
    sockets::{Session, SocketFinder},
};

/// Folders in whose place commands see one of the session's, or their own.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];
const SHARED_MEMORY: &str = "/dev/shm";
const RUN: &str = "/run";
const PROCESSES: &str = "/proc";
/// What says nothing of processes in the folder of processes.
const PROCESSES_KEPT: [&str; 9] = [
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys",
    "/proc/uptime",
    "/proc/version",
    "/proc/vmstat",
];
/// What is left of the folder of running services: where programs and addresses are found.
const RUN_KEPT: [&str; 6] = [
    "/run/current-system",
    "/run/booted-system",
    "/run/wrappers",
    "/run/opengl-driver",
    "/run/systemd/resolve",
    "/run/NetworkManager",
];
pub(super) const NOTHING: &str = "/dev/null";
const TERMINALS: &str = "/dev/pts";

/// Folders of the system that commands do not see, because something else is mounted there.
pub(in crate::sandbox) fn covered() -> Vec<PathBuf> {
    let folders = TEMPORARY.into_iter().chain([SHARED_MEMORY, RUN, PROCESSES]);
    folders.map(PathBuf::from).collect()
}

/// What commands see in them all the same.
pub(in crate::sandbox) fn kept() -> Vec<PathBuf> {
    RUN_KEPT.into_iter().chain(PROCESSES_KEPT).map(PathBuf::from).collect()
}

/// The folders of a session's commands.
#[derive(Debug)]
pub(super) struct PrivateFolders {
    base: PathBuf,
    /// What was made in them for mounts to be put onto.
    mount_points: Mutex<BTreeSet<PathBuf>>,
}

impl PrivateFolders {
    /// Makes them below `base`.
    pub(super) fn make(base: &Path) -> io::Result<Self> {
        let folders = Self { base: base.to_owned(), mount_points: Mutex::default() };
        for folder in [folders.temp(), folders.shared_memory(), folders.covers(), folders.held()] {
            fs::create_dir_all(folder)?;
        }
        Ok(folders)
    }

    /// Where commands put temporary files.
    pub(super) fn temp(&self) -> PathBuf {
        self.base.join("tmp")
    }

    pub(super) fn shared_memory(&self) -> PathBuf {
        self.base.join("shm")
    }

    /// Where what was moved aside is kept.
    pub(super) fn held(&self) -> PathBuf {
        self.base.join("held")
    }

    fn covers(&self) -> PathBuf {
        self.base.join("covers")
    }

    /// Makes something for a mount to be put onto, unless that was done before: a folder, or an empty file.
    fn make_mount_point(&self, point: &Path, is_directory: bool) -> io::Result<()> {
        let mut made = self.mount_points.lock().unwrap_or_else(PoisonError::into_inner);
        if made.contains(point) {
            return Ok(());
        }
        if is_directory {
            if !point.is_dir() {
                fs::create_dir_all(point)?;
            }
        } else {
            if let Some(parent) = point.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::OpenOptions::new().create(true).append(true).open(point)?;
        }
        // Commands can remove what is in their temporary folder.
        if point.starts_with(self.covers()) {
            made.insert(point.to_owned());
        }
        Ok(())
    }
}

/// What is wanted of the mounts.
#[derive(Debug)]
pub(super) struct MountRequest<'a> {
    pub private: &'a PrivateFolders,
    /// What must stay where it is, whatever is laid over the folders above it, and may be changed there.
    pub writable: &'a [PathBuf],
    /// The same for what may only be read.
    pub readable: &'a [PathBuf],
    /// What cannot be seen.
    pub hidden: &'a HiddenPlaces,
    /// Finds what others listen at.
    pub sockets: &'a SocketFinder,
    /// Who the others are not.
    pub session: Session<'a>,
    /// What is kept from changing inside of what may be changed.
    pub sealed: &'a SealedMounts,
}

/// What is laid over a place.
#[derive(Debug)]
enum MountLayer {
    /// A folder of the session.
    Folder(PathBuf),
    /// Nothing: an empty file.
    Nothing,
    /// What is there in truth.
    Truth(usize),
}

/// The steps.
#[derive(Debug)]
pub(super) struct MountPlan {
    pub steps: Vec<MountStep<CString>>,
}

impl MountPlan {
    /// Works out the steps. Makes the folders onto which mounts are put.
    pub(super) fn new(wanted: &MountRequest<'_>) -> io::Result<Self> {
        let mut layers: BTreeMap<PathBuf, MountLayer> = BTreeMap::new();
        let temp = wanted.private.temp();
        for folder in TEMPORARY {
            layers.insert(folder.into(), MountLayer::Folder(temp.clone()));
        }
        layers.insert(SHARED_MEMORY.into(), MountLayer::Folder(wanted.private.shared_memory()));
        let covers = wanted.private.covers();
        layers.insert(RUN.into(), MountLayer::Folder(covers.join("run")));
        layers.retain(|path, _| fs::symlink_metadata(path).is_ok_and(|data| !data.is_symlink()));
        for HiddenPlace { number, path, is_directory } in wanted.hidden.present() {
            let layer = if is_directory {
                MountLayer::Folder(covers.join(number.to_string()))
            } else {
                MountLayer::Nothing
            };
            layers.insert(path, layer);
        }
        let around_hidden = folders_around(&layers, wanted.writable);
        let mut held = Vec::new();
        let writable = wanted.writable.iter().cloned().map(|path| (path, false));
        let readable = wanted.readable.iter().cloned().chain(RUN_KEPT.map(PathBuf::from));
        let kept = writable.chain(readable.map(|path| (path, true)));
        let mut resolved: BTreeMap<PathBuf, Option<PathBuf>> = BTreeMap::new();
        for (path, is_read_only) in kept {
            // Most are named twice.
            let real =
                resolved.entry(path).or_insert_with_key(|path| crow_fs::canonicalize(path).ok());
            let Some(path) = real.clone() else { continue };
            let is_needed = !is_read_only || nearest(&layers, &path).is_some();
            if is_needed && !layers.contains_key(&path) {
                layers.insert(path.clone(), MountLayer::Truth(held.len()));
                held.push((path, is_read_only));
            }
        }
        for path in wanted.sockets.find(&wanted.session) {
            if !matches!(nearest(&layers, &path), Some((_, MountLayer::Folder(_)))) {
                layers.insert(path, MountLayer::Nothing);
            }
        }
        let puts = puts(&layers, &mut held, wanted.private)?;
        // All are held before anything is laid over where they are.
        let mut steps = holds(&held)?;
        steps.push(MountStep::SealAll);
        steps.extend(puts);
        for path in wanted.sealed.pinned.iter().chain(&around_hidden) {
            steps.push(MountStep::Pin { path: text(path.as_os_str())? });
        }
        for path in &wanted.sealed.read_only {
            steps.push(MountStep::Seal { path: text(path.as_os_str())? });
        }
        if Path::new(TERMINALS).is_dir() {
            steps.push(MountStep::Terminals { path: text(TERMINALS.as_ref())? });
        }
        Ok(Self { steps })
    }

    /// Returns where terminals of the command's own are, if there are any.
    pub(super) fn terminals(&self) -> Option<CString> {
        let last = self.steps.last()?;
        if let MountStep::Terminals { path } = last { Some(path.clone()) } else { None }
    }
}

/// Returns the folders in which something is hidden and that lie inside of what may be changed: moved elsewhere, they would
/// show it to the next command.
fn folders_around(
    layers: &BTreeMap<PathBuf, MountLayer>,
    writable: &[PathBuf],
) -> BTreeSet<PathBuf> {
    let roots: Vec<PathBuf> =
        writable.iter().filter_map(|path| crow_fs::canonicalize(path).ok()).collect();
    let is_inside =
        |above: &&Path| roots.iter().any(|root| above.starts_with(root) && above != root);
    layers
        .keys()
        .flat_map(|path| path.ancestors().skip(1).take_while(is_inside))
        .filter(|above| !layers.contains_key(*above))
        .map(Path::to_owned)
        .collect()
}

/// Returns what is laid over what. Holds what it needs for that.
fn puts(
    layers: &BTreeMap<PathBuf, MountLayer>,
    held: &mut Vec<(PathBuf, bool)>,
    private: &PrivateFolders,
) -> io::Result<Vec<MountStep<CString>>> {
    let mut puts = Vec::new();
    // Sorted by path: what is above comes first.
    for (path, layer) in layers {
        if let Some((above, MountLayer::Folder(folder))) = nearest(layers, path)
            && let Ok(below) = path.strip_prefix(above)
        {
            private.make_mount_point(&folder.join(below), path.is_dir())?;
        }
        let slot = match layer {
            MountLayer::Nothing => {
                puts.push(MountStep::Cover {
                    from: text(NOTHING.as_ref())?,
                    path: text(path.as_os_str())?,
                });
                continue;
            }
            MountLayer::Truth(slot) => *slot,
            MountLayer::Folder(folder) => {
                private.make_mount_point(folder, true)?;
                held.push((folder.clone(), false));
                held.len() - 1
            }
        };
        puts.push(MountStep::Put { slot, path: text(path.as_os_str())? });
    }
    Ok(puts)
}

/// Returns how places are held.
fn holds(held: &[(PathBuf, bool)]) -> io::Result<Vec<MountStep<CString>>> {
    if held.len() > HELD {
        return Err(io::Error::other(format!("more than {HELD} places to show or to hide")));
    }
    let mut steps = Vec::new();
    for (slot, (path, is_read_only)) in held.iter().enumerate() {
        steps.push(MountStep::Hold {
            path: text(path.as_os_str())?,
            slot,
            is_read_only: *is_read_only,
        });
    }
    Ok(steps)
}

/// Returns the layer that a path lies in.
fn nearest<'a>(
    layers: &'a BTreeMap<PathBuf, MountLayer>,
    path: &Path,
) -> Option<(&'a Path, &'a MountLayer)> {
    path.ancestors().skip(1).find_map(|above| {
        layers.get_key_value(above).map(|(above, layer)| (above.as_path(), layer))
    })
}

pub(super) fn text(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}
