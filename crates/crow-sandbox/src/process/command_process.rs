//! The first process of a command, by whomever it was started.

use std::{io, process::ExitStatus};

use rustix::process::Pid;

#[cfg(target_os = "linux")]
use super::pidfd_child::PidfdChild;

/// The first process of a command. Killed when it is dropped.
#[derive(Debug)]
pub(super) enum CommandProcess {
    /// Started by this program.
    Own(tokio::process::Child),
    /// Started by another process in the name of this one.
    #[cfg(target_os = "linux")]
    Given(PidfdChild),
}

impl CommandProcess {
    /// Takes over a child that another process has made, and that nobody has waited for.
    #[cfg(target_os = "linux")]
    pub(super) fn given(pid: Pid) -> io::Result<Self> {
        PidfdChild::new(pid).map(Self::Given)
    }

    /// No other process makes children of this one here.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn given(_pid: Pid) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn id(&self) -> Option<u32> {
        match self {
            Self::Own(child) => child.id(),
            #[cfg(target_os = "linux")]
            Self::Given(child) => child.id(),
        }
    }

    /// Waits for its end.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            Self::Own(child) => child.wait().await,
            #[cfg(target_os = "linux")]
            Self::Given(child) => child.wait().await,
        }
    }
}
