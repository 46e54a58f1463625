//! Builds the mount steps that give a command its own view of the files.
//!
//! The wanted view is a map from path to layer ([`MountLayer`]): a folder of the session, an empty file, or
//! the real content. Layers are applied in path order, so a parent is mounted before what lies in it. Three
//! phases follow from this:
//!
//! 1. `Hold` opens the mount trees that are needed later, before anything covers them.
//! 2. `SealAll` makes the whole tree read-only.
//! 3. `Put`, `Cover`, `Pin` and `Seal` mount the layers, make renames impossible, and protect files.

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
    hidden_paths::{HiddenPath, HiddenPaths},
    mount_steps::{MAX_TREES, MountStep},
    sockets::{Session, SocketFinder},
};

/// Folders that commands see replaced by a folder of the session.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];
const SHARED_MEMORY: &str = "/dev/shm";
const RUN: &str = "/run";
const PROCESSES: &str = "/proc";
/// Entries of `/proc` that reveal nothing about processes and stay visible.
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
/// Parts of `/run` that stay visible: programs and the name servers' addresses are found there.
const RUN_KEPT: [&str; 6] = [
    "/run/current-system",
    "/run/booted-system",
    "/run/wrappers",
    "/run/opengl-driver",
    "/run/systemd/resolve",
    "/run/NetworkManager",
];
pub(super) const EMPTY_FILE: &str = "/dev/null";
/// Name of the empty file in the covers. The others are numbers.
const READ_ONLY_FILE: &str = "empty";
const TERMINALS: &str = "/dev/pts";

/// Returns the system folders that commands do not see, because something else is mounted there.
pub(in crate::sandbox) fn covered_folders() -> Vec<PathBuf> {
    let folders = TEMPORARY.into_iter().chain([SHARED_MEMORY, RUN, PROCESSES]);
    folders.map(PathBuf::from).collect()
}

/// Returns the paths within them that stay visible.
pub(in crate::sandbox) fn visible_exceptions() -> Vec<PathBuf> {
    RUN_KEPT.into_iter().chain(PROCESSES_KEPT).map(PathBuf::from).collect()
}

/// Private folders of a session's commands.
#[derive(Debug)]
pub(super) struct PrivateFolders {
    base: PathBuf,
    /// Mount points that were already created below `covers`.
    mount_points: Mutex<BTreeSet<PathBuf>>,
}

impl PrivateFolders {
    /// Creates the folders below `base`.
    pub(super) fn make(base: &Path) -> io::Result<Self> {
        let folders = Self { base: base.to_owned(), mount_points: Mutex::default() };
        for folder in
            [folders.temp(), folders.shared_memory(), folders.covers(), folders.quarantine_folder()]
        {
            fs::create_dir_all(folder)?;
        }
        Ok(folders)
    }

    /// Returns the folder for temporary files of commands.
    pub(super) fn temp(&self) -> PathBuf {
        self.base.join("tmp")
    }

    pub(super) fn shared_memory(&self) -> PathBuf {
        self.base.join("shm")
    }

    /// Returns the folder for files that the autorun guard moved aside.
    pub(super) fn quarantine_folder(&self) -> PathBuf {
        self.base.join("held")
    }

    fn covers(&self) -> PathBuf {
        self.base.join("covers")
    }

    /// Creates a mount point, a folder or an empty file, unless that was already done.
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
        // Only these are cached: commands can remove the contents of their temporary folder.
        if point.starts_with(self.covers()) {
            made.insert(point.to_owned());
        }
        Ok(())
    }
}

/// Inputs of a [`MountPlan`].
#[derive(Debug)]
pub(super) struct MountRequest<'a> {
    pub private: &'a PrivateFolders,
    /// Paths that stay visible and writable, whatever covers the folders above them.
    pub writable: &'a [PathBuf],
    /// Paths that stay visible, read-only.
    pub readable: &'a [PathBuf],
    /// Paths that commands must not see.
    pub hidden: &'a HiddenPaths,
    /// Finds the sockets of other programs, which are covered.
    pub sockets: &'a SocketFinder,
    /// Identifies the session's own sockets, which are not covered.
    pub session: Session<'a>,
    /// Protected paths within the writable ones.
    pub sealed: &'a SealedMounts,
}

/// Layer at a path.
#[derive(Debug)]
enum MountLayer {
    /// A folder of the session.
    Folder(PathBuf),
    /// A folder of the session in place of a hidden one of the workspace. It cannot be changed, so that a command that
    /// writes there fails.
    ReadOnlyFolder(PathBuf),
    /// An empty device, which takes what is written.
    EmptyFile,
    /// An empty file that cannot be changed, so that a command that writes to it fails.
    ReadOnlyFile,
    /// The real content; the index of its held mount tree.
    Real(usize),
}

impl MountLayer {
    /// Returns the folder of the session that is mounted, if it is one.
    fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(folder) | Self::ReadOnlyFolder(folder) => Some(folder),
            Self::EmptyFile | Self::ReadOnlyFile | Self::Real(_) => None,
        }
    }
}

/// Mount steps of one command, in order.
#[derive(Debug)]
pub(super) struct MountPlan {
    pub steps: Vec<MountStep<CString>>,
}

impl MountPlan {
    /// Computes the steps. Creates the mount points in the private folders.
    pub(super) fn new(wanted: &MountRequest<'_>) -> io::Result<Self> {
        // 1) Folders of the session that replace those of the system.
        let mut layers: BTreeMap<PathBuf, MountLayer> = BTreeMap::new();
        let temp = wanted.private.temp();
        for folder in TEMPORARY {
            layers.insert(folder.into(), MountLayer::Folder(temp.clone()));
        }
        layers.insert(SHARED_MEMORY.into(), MountLayer::Folder(wanted.private.shared_memory()));
        let covers = wanted.private.covers();
        layers.insert(RUN.into(), MountLayer::Folder(covers.join("run")));
        layers.retain(|path, _| fs::symlink_metadata(path).is_ok_and(|data| !data.is_symlink()));
        // 2) Hidden paths that exist.
        for HiddenPath { number, path, is_directory } in wanted.hidden.present() {
            // Elsewhere programs may add to their histories as usual. In the workspace, a command must not believe that
            // it changed what is hidden.
            let is_inside =
                wanted.writable.iter().chain(wanted.readable).any(|top| path.starts_with(top));
            let folder = covers.join(number.to_string());
            let layer = match (is_directory, is_inside) {
                (true, true) => MountLayer::ReadOnlyFolder(folder),
                (true, false) => MountLayer::Folder(folder),
                (false, true) => MountLayer::ReadOnlyFile,
                (false, false) => MountLayer::EmptyFile,
            };
            layers.insert(path, layer);
        }
        let around_hidden = folders_around(&layers, wanted.writable);
        // 3) Paths that stay visible where a layer above would hide them, or that stay writable.
        let mut held_trees = Vec::new();
        let writable = wanted.writable.iter().cloned().map(|path| (path, false));
        let readable = wanted.readable.iter().cloned().chain(RUN_KEPT.map(PathBuf::from));
        let visible = writable.chain(readable.map(|path| (path, true)));
        let mut resolved: BTreeMap<PathBuf, Option<PathBuf>> = BTreeMap::new();
        for (path, is_read_only) in visible {
            // Most paths are listed twice.
            let real =
                resolved.entry(path).or_insert_with_key(|path| crow_fs::canonicalize(path).ok());
            let Some(path) = real.clone() else { continue };
            let is_needed = !is_read_only || nearest(&layers, &path).is_some();
            if is_needed && !layers.contains_key(&path) {
                layers.insert(path.clone(), MountLayer::Real(held_trees.len()));
                held_trees.push((path, is_read_only));
            }
        }
        // 4) Sockets of other programs, unless a folder already covers them.
        for path in wanted.sockets.find(&wanted.session) {
            let above = nearest(&layers, &path).map(|(_, layer)| layer);
            if above.and_then(MountLayer::folder).is_none() {
                layers.insert(path, MountLayer::EmptyFile);
            }
        }
        let put_steps = put_steps(&layers, &mut held_trees, wanted.private)?;
        // All trees are opened before anything is mounted over them.
        let mut steps = hold_steps(&held_trees)?;
        steps.push(MountStep::SealAll);
        steps.extend(put_steps);
        // 5) Paths that must not be renamed, and paths that must not change.
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

    /// Returns the mount point of the command's own terminals, if there are any.
    pub(super) fn terminals(&self) -> Option<CString> {
        let last = self.steps.last()?;
        if let MountStep::Terminals { path } = last { Some(path.clone()) } else { None }
    }
}

/// Returns the folders around hidden paths that lie within writable folders: if a command renamed such a
/// folder, the hidden path would be visible to the next command. They get pinned.
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

/// Builds the mount steps in path order; appends the mount trees that must stay open to `held_trees`, as pairs of
/// path and read-only flag.
fn put_steps(
    layers: &BTreeMap<PathBuf, MountLayer>,
    held_trees: &mut Vec<(PathBuf, bool)>,
    private: &PrivateFolders,
) -> io::Result<Vec<MountStep<CString>>> {
    let mut put_steps = Vec::new();
    // Sorted by path, so parents come before their children.
    for (path, layer) in layers {
        if let Some((above, layer)) = nearest(layers, path)
            && let Some(folder) = layer.folder()
            && let Ok(below) = path.strip_prefix(above)
        {
            private.make_mount_point(&folder.join(below), path.is_dir())?;
        }
        let slot = match layer {
            MountLayer::EmptyFile => {
                put_steps.push(MountStep::BindFile {
                    from: text(EMPTY_FILE.as_ref())?,
                    path: text(path.as_os_str())?,
                });
                continue;
            }
            MountLayer::ReadOnlyFile => {
                let cover = private.covers().join(READ_ONLY_FILE);
                private.make_mount_point(&cover, false)?;
                held_trees.push((cover, true));
                held_trees.len() - 1
            }
            MountLayer::Real(slot) => *slot,
            MountLayer::Folder(folder) | MountLayer::ReadOnlyFolder(folder) => {
                private.make_mount_point(folder, true)?;
                let is_read_only = matches!(layer, MountLayer::ReadOnlyFolder(_));
                held_trees.push((folder.clone(), is_read_only));
                held_trees.len() - 1
            }
        };
        put_steps.push(MountStep::MountTree { slot, path: text(path.as_os_str())? });
    }
    Ok(put_steps)
}

/// Builds the steps that open the held mount trees.
fn hold_steps(held_trees: &[(PathBuf, bool)]) -> io::Result<Vec<MountStep<CString>>> {
    if held_trees.len() > MAX_TREES {
        return Err(io::Error::other(format!("more than {MAX_TREES} places to show or to hide")));
    }
    let mut steps = Vec::new();
    for (slot, (path, is_read_only)) in held_trees.iter().enumerate() {
        steps.push(MountStep::OpenTree {
            path: text(path.as_os_str())?,
            slot,
            is_read_only: *is_read_only,
        });
    }
    Ok(steps)
}

/// Returns the layer nearest above a path.
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
