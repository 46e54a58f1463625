//! What is mounted where for a command. Runs between fork and exec: allocates nothing.

use std::{
    ffi::{CStr, CString},
    os::fd::{AsFd as _, OwnedFd},
};

use rustix::{
    fs::{CWD, Mode, OFlags},
    mount::{MountFlags, MoveMountFlags, OpenTreeFlags},
};

use super::child::make_read_only;

/// A change of what is mounted where.
#[derive(Debug)]
pub(super) enum Step {
    /// Holds a tree as it is now, perhaps so that nothing in it can be changed through what is held.
    Hold { path: CString, slot: usize, is_read_only: bool },
    /// Lets nothing be changed anywhere, until something is put over it.
    SealAll,
    /// Lays a file over another one.
    Cover { from: CString, path: CString },
    /// Lays a held tree over something.
    Put { slot: usize, path: CString },
    /// Lays something over itself, so that it cannot be renamed or removed.
    Pin { path: CString },
    /// The same, and nothing in it can be changed.
    Seal { path: CString },
    /// Mounts terminals of the command's own.
    Terminals { path: CString },
}

impl Step {
    pub(super) fn apply(&self, held: &mut [Option<OwnedFd>]) -> rustix::io::Result<()> {
        match self {
            Self::Hold { path, slot, is_read_only } => {
                let tree = hold(path, *is_read_only)?;
                held.get_mut(*slot).ok_or(rustix::io::Errno::INVAL)?.replace(tree);
                Ok(())
            }
            Self::Cover { from, path } => {
                match rustix::mount::mount_bind(from.as_c_str(), path.as_c_str()) {
                    // Sockets of others come and go: what is gone needs no cover.
                    Err(rustix::io::Errno::NOENT) => Ok(()),
                    covered => covered,
                }
            }
            Self::SealAll => {
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                let root = rustix::fs::open(c"/", flags, Mode::empty())?;
                make_read_only(root.as_fd())
            }
            Self::Put { slot, path } => {
                let tree = held.get(*slot).and_then(Option::as_ref);
                let tree = tree.ok_or(rustix::io::Errno::INVAL)?;
                put(tree, path)
            }
            Self::Pin { path } => {
                rustix::mount::mount_bind_recursive(path.as_c_str(), path.as_c_str())
            }
            Self::Seal { path } => put(&hold(path, true)?, path),
            Self::Terminals { path } => {
                let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
                let options = Some(c"newinstance,ptmxmode=0666,mode=0620");
                rustix::mount::mount(c"devpts", path.as_c_str(), c"devpts", flags, options)
            }
        }
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
