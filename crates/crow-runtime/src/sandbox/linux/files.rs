//! Which files a command may touch: a Landlock ruleset.

use std::{
    fs,
    os::{fd::OwnedFd, unix::fs::FileTypeExt as _},
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, Scope,
};

use super::child::landlock_interface;

/// The newest kernel interface that was tested.
const KNOWN: ABI = ABI::V7;
/// The kernel interface that first knew of ioctls.
const IOCTL_SINCE: i64 = 5;
/// Devices that programs need. All others are out of reach: disks, memory, terminals of others.
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"];

/// What may be touched, with every place open.
#[derive(Debug)]
pub(super) struct Files {
    rules: Vec<(PathFd, BitFlags<AccessFs>)>,
}

impl Files {
    /// Opens what may be touched: everything but `unreadable` may be read, `writable` may be changed as well. Places
    /// that do not exist are left out.
    pub(super) fn open(unreadable: &[PathBuf], writable: &[PathBuf]) -> Self {
        let mut rules = Vec::new();
        let mut add = |path: &Path, access: BitFlags<AccessFs>| {
            if let Ok(fd) = PathFd::new(path) {
                let is_folder = path.is_dir();
                let access = if is_folder { access } else { access & AccessFs::from_file(KNOWN) };
                rules.push((fd, access));
            }
        };
        let devices = [PathBuf::from("/dev")];
        for path in beside(Path::new("/"), &[unreadable, &devices].concat()) {
            add(&path, AccessFs::ReadFile.into());
        }
        for device in DEVICES {
            add(Path::new(device), AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev);
        }
        let change = changes() | AccessFs::ReadFile;
        for path in writable {
            add(path, change);
        }
        Self { rules }
    }

    /// Makes a ruleset. None where the kernel has no Landlock.
    pub(super) fn ruleset(&self) -> Option<OwnedFd> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_write(KNOWN) | AccessFs::ReadFile)
            .and_then(|ruleset| ruleset.scope(Scope::from_all(KNOWN)))
            .and_then(Ruleset::create)
            .ok()?;
        for (place, access) in &self.rules {
            ruleset = ruleset.add_rule(PathBeneath::new(place, *access)).ok()?;
        }
        ruleset.into()
    }

    /// The rights of a rule for processes that are shown to the command.
    pub(super) fn reading() -> u64 {
        BitFlags::from(AccessFs::ReadFile).bits()
    }

    /// The rights of a rule for terminals of the command's own.
    pub(super) fn terminals() -> u64 {
        let mut access = AccessFs::ReadFile | AccessFs::WriteFile;
        if landlock_interface() >= IOCTL_SINCE {
            access |= AccessFs::IoctlDev;
        }
        access.bits()
    }
}

/// What may be done to files in the workspace. No devices are made.
fn changes() -> BitFlags<AccessFs> {
    AccessFs::from_write(KNOWN) & !(AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::IoctlDev)
}

/// Returns paths that together are everything below `folder` but `left_out`: a rule can only add.
fn beside(folder: &Path, left_out: &[PathBuf]) -> Vec<PathBuf> {
    let below: Vec<_> = left_out.iter().filter(|path| path.starts_with(folder)).cloned().collect();
    if below.is_empty() {
        return vec![folder.to_owned()];
    }
    if below.iter().any(|path| path == folder) {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let entries = entries.flatten().filter(|entry| {
        // A link is followed to where it leads, which has its own rule or none.
        entry.file_type().is_ok_and(|kind| !kind.is_symlink() && !kind.is_socket())
    });
    entries.flat_map(|entry| beside(&entry.path(), &below)).collect()
}
