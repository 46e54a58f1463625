//! A child of this process that another process created, watched by a pidfd.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    process::ExitStatus,
    sync::{Mutex, PoisonError},
};

use rustix::{
    io::retry_on_intr,
    process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, waitpid},
};
use tokio::io::unix::AsyncFd;

/// Pidfds of children dropped before they had exited; reaped later.
static DROPPED: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

/// Child of this process that another process created. Killed when dropped.
#[derive(Debug)]
pub(super) struct PidfdChild {
    pid: Pid,
    /// `None` only during drop.
    fd: Option<AsyncFd<OwnedFd>>,
    status: Option<ExitStatus>,
}

impl PidfdChild {
    /// Takes over a child that has not been waited for. Kills and reaps it if no pidfd can be opened.
    #[expect(deprecated, reason = "an owned descriptor is open; what came after it is unsafe code")]
    pub(super) fn new(pid: Pid) -> io::Result<Self> {
        reap_dropped();
        let fd = rustix::process::pidfd_open(pid, PidfdFlags::NONBLOCK)
            .map_err(io::Error::from)
            .and_then(AsyncFd::new)
            .inspect_err(|_| {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                let _ = retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
            })?;
        Ok(Self { pid, fd: Some(fd), status: None })
    }

    pub(super) fn id(&self) -> Option<u32> {
        u32::try_from(self.pid.as_raw_nonzero().get()).ok()
    }

    /// Waits for the process to exit.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.status {
                return Ok(status);
            }
            let fd = self.fd.as_ref().ok_or(io::ErrorKind::NotFound)?;
            let mut ready = fd.readable().await?;
            self.status = reap(fd.get_ref())?;
            if self.status.is_none() {
                ready.clear_ready();
            }
        }
    }
}

impl Drop for PidfdChild {
    fn drop(&mut self) {
        if self.status.is_some() {
            return;
        }
        if let Some(fd) = self.fd.take().map(AsyncFd::into_inner) {
            let _ = rustix::process::pidfd_send_signal(&fd, Signal::KILL);
            DROPPED.lock().unwrap_or_else(PoisonError::into_inner).push(fd);
            reap_dropped();
        }
    }
}

/// Reaps the dropped children that have exited.
fn reap_dropped() {
    let mut pending = DROPPED.lock().unwrap_or_else(PoisonError::into_inner);
    pending.retain(|fd| matches!(reap(fd), Ok(None)));
}

/// Returns the exit status of a child, or `None` if it is still running.
fn reap(fd: &OwnedFd) -> io::Result<Option<ExitStatus>> {
    use std::os::unix::process::ExitStatusExt as _;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    let status = match rustix::process::waitid(WaitId::PidFd(fd.as_fd()), options) {
        Err(rustix::io::Errno::AGAIN) => None,
        status => status?,
    };
    Ok(status.map(|status| {
        let exited = status.exit_status().map(|code| code << 8);
        ExitStatus::from_raw(exited.or_else(|| status.terminating_signal()).unwrap_or_default())
    }))
}
