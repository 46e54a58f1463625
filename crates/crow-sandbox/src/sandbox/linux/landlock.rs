//! Landlock ruleset: the files that a command may access.

use std::{
    fs::{self, File},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::FileTypeExt as _,
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathFd, Ruleset,
    RulesetAttr as _, Scope,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::child::{self, landlock_interface};
use crow_fs::DirectoryStamp;

/// Newest Landlock ABI that was tested.
const KNOWN: ABI = ABI::V7;
/// First Landlock ABI that controls `ioctl` on devices.
const IOCTL_SINCE: i64 = 5;
/// Devices that programs need. All others cannot be opened: disks, memory, terminals of others.
const DEVICES_FOLDER: &str = "/dev";
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"];

/// Access rights of one command, with every path opened.
#[derive(Debug)]
pub(super) struct LandlockAccess {
    system: Arc<LandlockRules>,
    writable: LandlockRules,
}

/// Opened paths with their access rights.
type LandlockRules = Vec<(PathFd, BitFlags<AccessFs>)>;

/// Readable files and devices, the same for all commands of a session: kept open until mounts or directory
/// entries change.
#[derive(Debug, Default)]
pub(super) struct SystemFiles {
    opened: Mutex<Option<OpenedSystem>>,
}

#[derive(Debug)]
struct OpenedSystem {
    rules: Arc<LandlockRules>,
    /// Time stamps of `/` and `/dev`, whose entries were opened, from before that.
    directories: [DirectoryStamp; 2],
    /// `mountinfo`; polls as changed when something is mounted or unmounted.
    mounts: File,
}

impl SystemFiles {
    /// Returns the rules for readable files and devices, without `unreadable` and without what does not
    /// exist.
    fn open(&self, unreadable: &[PathBuf]) -> Arc<LandlockRules> {
        // With paths to leave out, many directories would have to be checked for changes, so there is no
        // caching.
        if !unreadable.is_empty() {
            return Arc::new(open_system(unreadable));
        }
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = opened.as_ref().filter(|opened| opened.is_valid()) {
            return Arc::clone(&opened.rules);
        }
        let mounts = File::open("/proc/self/mountinfo");
        let stamps = ["/", DEVICES_FOLDER].map(|path| DirectoryStamp::of_path(Path::new(path)));
        let rules = Arc::new(open_system(&[]));
        *opened = match (mounts, stamps) {
            (Ok(mounts), [Some(root), Some(devices)])
                if root.is_settled() && devices.is_settled() =>
            {
                let directories = [root, devices];
                Some(OpenedSystem { rules: Arc::clone(&rules), directories, mounts })
            }
            (Ok(_) | Err(_), _) => None,
        };
        rules
    }
}

impl OpenedSystem {
    /// Returns true if no entry and no mount has changed since the paths were opened.
    fn is_valid(&self) -> bool {
        let now = ["/", DEVICES_FOLDER].map(|path| DirectoryStamp::of_path(Path::new(path)));
        let mut mounts = [PollFd::new(&self.mounts, PollFlags::PRI)];
        now == self.directories.map(Some)
            && poll(&mut mounts, Some(&Timespec::default())).is_ok_and(|changed| changed == 0)
    }
}

/// Opens everything that may be read, and the devices.
fn open_system(unreadable: &[PathBuf]) -> LandlockRules {
    let left_out = [unreadable, &[PathBuf::from(DEVICES_FOLDER)]].concat();
    let readable = all_but(Path::new("/"), &left_out).into_iter();
    let readable = readable.filter_map(|path| open(&path, AccessFs::ReadFile.into()));
    let use_device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let devices = DEVICES.iter().filter_map(|device| open(Path::new(device), use_device));
    readable.chain(devices).collect()
}

/// Opens a path with rights that fit its type; `None` if it does not exist.
fn open(path: &Path, access: BitFlags<AccessFs>) -> Option<(PathFd, BitFlags<AccessFs>)> {
    let fd = PathFd::new(path).ok()?;
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(KNOWN) };
    Some((fd, access))
}

impl LandlockAccess {
    /// Opens everything that may be accessed: everything but `unreadable` may be read, `writable` may be
    /// changed as well. Ignores paths that do not exist.
    pub(super) fn open(system: &SystemFiles, unreadable: &[PathBuf], writable: &[PathBuf]) -> Self {
        let change = change_rights() | AccessFs::ReadFile;
        let writable = writable.iter().filter_map(|path| open(path, change)).collect();
        Self { system: system.open(unreadable), writable }
    }

    /// Builds a ruleset. Returns `None` if the kernel has no Landlock.
    pub(super) fn ruleset(&self) -> Option<OwnedFd> {
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_write(KNOWN) | AccessFs::ReadFile)
            .and_then(|ruleset| ruleset.scope(Scope::from_all(KNOWN)))
            .and_then(Ruleset::create)
            .ok()?;
        let ruleset = Option::<OwnedFd>::from(ruleset)?;
        // The kernel rejects access rights that it does not know.
        let known =
            AccessFs::from_all(i32::try_from(landlock_interface()).map_or(KNOWN, ABI::from));
        for (place, access) in self.system.iter().chain(&self.writable) {
            let access = (*access & known).bits();
            if access != 0 {
                child::add_rule(ruleset.as_fd(), place.as_fd(), access).ok()?;
            }
        }
        Some(ruleset)
    }

    /// Returns the access rights for `/proc` in the command's own process namespace.
    pub(super) fn reading() -> u64 {
        BitFlags::from(AccessFs::ReadFile).bits()
    }

    /// Returns the access rights for the command's own terminals.
    pub(super) fn terminals() -> u64 {
        let mut access = AccessFs::ReadFile | AccessFs::WriteFile;
        if landlock_interface() >= IOCTL_SINCE {
            access |= AccessFs::IoctlDev;
        }
        access.bits()
    }
}

/// Returns the rights to change files in the workspace. Device files cannot be created.
fn change_rights() -> BitFlags<AccessFs> {
    AccessFs::from_write(KNOWN) & !(AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::IoctlDev)
}

/// Returns paths that together cover everything below `folder` except `left_out`: a Landlock rule can only
/// add rights.
fn all_but(folder: &Path, left_out: &[PathBuf]) -> Vec<PathBuf> {
    let excluded: Vec<_> =
        left_out.iter().filter(|path| path.starts_with(folder)).cloned().collect();
    if excluded.is_empty() {
        return vec![folder.to_owned()];
    }
    if excluded.iter().any(|path| path == folder) {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let entries = entries.flatten().filter(|entry| {
        // A link is followed to its target, which has a rule of its own or none.
        entry.file_type().is_ok_and(|kind| !kind.is_symlink() && !kind.is_socket())
    });
    entries.flat_map(|entry| all_but(&entry.path(), &excluded)).collect()
}
