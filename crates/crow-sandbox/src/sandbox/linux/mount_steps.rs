//! Mount steps of a command. They are executed by a process that must not allocate.

use std::{
    ffi::CStr,
    os::fd::{AsFd as _, OwnedFd},
};

use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
    mount::{MountFlags, MoveMountFlags, OpenTreeFlags},
};

use super::{
    child::{make_path_read_only, make_read_only},
    plan_codec::{PlanReader, PlanWriter},
};

/// Maximum number of mount trees that are held open at once.
pub(super) const MAX_TREES: usize = 1024;

/// One change of the mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MountStep<P> {
    /// Opens a copy of a mount tree in a slot; if `is_read_only`, nothing can be changed through this copy.
    OpenTree { path: P, slot: usize, is_read_only: bool },
    /// Makes all mounts read-only, except those that are mounted later.
    SealAll,
    /// Mounts one file over another.
    BindFile { from: P, path: P },
    /// Mounts the held tree of a slot at a path.
    MountTree { slot: usize, path: P },
    /// Mounts a path over itself, so that it cannot be renamed or removed.
    Pin { path: P },
    /// Like `Pin`, and makes it read-only.
    Seal { path: P },
    /// Mounts a separate devpts instance, for terminals of the command's own.
    Terminals { path: P },
}

impl<P: AsRef<CStr>> MountStep<P> {
    pub(super) fn apply(&self, trees: &mut [Option<OwnedFd>]) -> rustix::io::Result<()> {
        match self {
            Self::OpenTree { path, slot, is_read_only } => {
                let tree = hold(path.as_ref(), *is_read_only)?;
                trees.get_mut(*slot).ok_or(Errno::INVAL)?.replace(tree);
                Ok(())
            }
            Self::BindFile { from, path } => {
                match rustix::mount::mount_bind(from.as_ref(), path.as_ref()) {
                    // Sockets of other programs come and go; a missing one needs no cover.
                    Err(Errno::NOENT) => Ok(()),
                    covered => covered,
                }
            }
            Self::SealAll => {
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                let root = rustix::fs::open(c"/", flags, Mode::empty())?;
                make_read_only(root.as_fd())
            }
            Self::MountTree { slot, path } => {
                let tree = trees.get(*slot).and_then(Option::as_ref);
                put(tree.ok_or(Errno::INVAL)?, path.as_ref())
            }
            Self::Pin { path } => rustix::mount::mount_bind_recursive(path.as_ref(), path.as_ref()),
            Self::Seal { path } => {
                // No other process runs in this mount namespace yet, so nobody writes between the two calls.
                rustix::mount::mount_bind_recursive(path.as_ref(), path.as_ref())?;
                make_path_read_only(path.as_ref())
            }
            Self::Terminals { path } => {
                let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
                let options = Some(c"newinstance,ptmxmode=0666,mode=0620");
                rustix::mount::mount(c"devpts", path.as_ref(), c"devpts", flags, options)
            }
        }
    }

    pub(super) fn write(&self, plan: &mut PlanWriter) {
        match self {
            Self::OpenTree { path, slot, is_read_only } => {
                plan.number(u64::from(*is_read_only));
                plan.number(*slot as u64);
                plan.text(path.as_ref());
            }
            Self::SealAll => plan.number(2),
            Self::BindFile { from, path } => {
                plan.number(3);
                plan.text(from.as_ref());
                plan.text(path.as_ref());
            }
            Self::MountTree { slot, path } => {
                plan.number(4);
                plan.number(*slot as u64);
                plan.text(path.as_ref());
            }
            Self::Pin { path } => {
                plan.number(5);
                plan.text(path.as_ref());
            }
            Self::Seal { path } => {
                plan.number(6);
                plan.text(path.as_ref());
            }
            Self::Terminals { path } => {
                plan.number(7);
                plan.text(path.as_ref());
            }
        }
    }
}

impl<'a> MountStep<&'a CStr> {
    /// Decodes one step.
    pub(super) fn read(reader: &mut PlanReader<'a>) -> Option<Self> {
        let kind = reader.number()?;
        let mut slot = || usize::try_from(reader.number()?).ok();
        Some(match kind {
            0 | 1 => {
                Self::OpenTree { slot: slot()?, path: reader.text()?, is_read_only: kind == 1 }
            }
            2 => Self::SealAll,
            3 => Self::BindFile { from: reader.text()?, path: reader.text()? },
            4 => Self::MountTree { slot: slot()?, path: reader.text()? },
            5 => Self::Pin { path: reader.text()? },
            6 => Self::Seal { path: reader.text()? },
            7 => Self::Terminals { path: reader.text()? },
            8.. => return None,
        })
    }
}

fn hold(path: &CStr, is_read_only: bool) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = rustix::mount::open_tree(CWD, path, flags)?;
    if is_read_only {
        make_read_only(tree.as_fd())?;
    }
    Ok(tree)
}

fn put(tree: &OwnedFd, path: &CStr) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(tree, c"", CWD, path, flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_survive_encoding_and_decoding() {
        let (path, from) = (c"/a b", c"/dev/null");
        let steps = [
            MountStep::OpenTree { path, slot: 7, is_read_only: true },
            MountStep::OpenTree { path, slot: 0, is_read_only: false },
            MountStep::SealAll,
            MountStep::BindFile { from, path },
            MountStep::MountTree { slot: 3, path },
            MountStep::Pin { path },
            MountStep::Seal { path },
            MountStep::Terminals { path },
        ];
        let mut plan = PlanWriter::default();
        for step in &steps {
            step.write(&mut plan);
        }
        let mut reader = plan.reader();
        for step in steps {
            assert_eq!(MountStep::read(&mut reader), Some(step));
        }
        assert_eq!(MountStep::read(&mut reader), None);
    }
}
