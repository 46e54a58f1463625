//! The first process of a command, by whomever it was started.

use std::{io, process::ExitStatus};

#[cfg(target_os = "linux")]
pub(super) use super::given::GivenChild;

/// The first process of a command. Killed when it is dropped.
#[derive(Debug)]
pub(super) enum Child {
    /// Started by this program.
    Own(tokio::process::Child),
    /// Started by another process in the name of this one.
    Given(GivenChild),
}

impl Child {
    pub(super) fn id(&self) -> Option<u32> {
        match self {
            Self::Own(child) => child.id(),
            Self::Given(child) => child.id(),
        }
    }

    /// Waits for its end.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            Self::Own(child) => child.wait().await,
            Self::Given(child) => child.wait().await,
        }
    }
}

/// Elsewhere nothing starts a process in the name of this one.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(super) enum GivenChild {}

#[cfg(not(target_os = "linux"))]
impl GivenChild {
    pub(super) fn new(_pid: rustix::process::Pid) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn id(&self) -> Option<u32> {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "so it is on Linux")]
    async fn wait(&mut self) -> io::Result<ExitStatus> {
        match *self {}
    }
}
