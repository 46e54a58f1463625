//! The first process of a command, started either by this program or by the sandbox's keeper.

use std::{io, process::ExitStatus};

use rustix::process::Pid;

#[cfg(target_os = "linux")]
use super::pidfd_child::PidfdChild;

/// First process of a command. Killed when dropped.
#[derive(Debug)]
pub(super) enum CommandProcess {
    /// Started by this program.
    Own(tokio::process::Child),
    /// Started by another process (the keeper) with this process as parent.
    #[cfg(target_os = "linux")]
    Adopted(PidfdChild),
}

impl CommandProcess {
    /// Takes over a child of this process that another process created and that has not been waited for.
    #[cfg(target_os = "linux")]
    pub(super) fn adopt(pid: Pid) -> io::Result<Self> {
        PidfdChild::new(pid).map(Self::Adopted)
    }

    /// Fails with `Unsupported`: only the Linux keeper creates children of this process.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn adopt(_pid: Pid) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn id(&self) -> Option<u32> {
        match self {
            Self::Own(child) => child.id(),
            #[cfg(target_os = "linux")]
            Self::Adopted(child) => child.id(),
        }
    }

    /// Waits for the process to exit.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            Self::Own(child) => child.wait().await,
            #[cfg(target_os = "linux")]
            Self::Adopted(child) => child.wait().await,
        }
    }
}
