//! Asynchronous reads of terminal input. No thread blocks in a read: it would swallow the next line after a cancel.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{Interest, unix::AsyncFd};

/// Maximum number of bytes per read.
const CHUNK: usize = 4096;
/// Timeout of a poll that does not wait.
const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Reader of the bytes typed at the terminal on standard input.
#[derive(Debug)]
pub(crate) struct Keyboard(AsyncFd<OwnedFd>);

impl Keyboard {
    /// Registers a duplicate of the current standard input, which must be a terminal.
    #[expect(
        deprecated,
        reason = "its successor needs `unsafe`; the descriptor here is owned and stays open"
    )]
    pub(crate) fn new() -> io::Result<Self> {
        let terminal = io::stdin().as_fd().try_clone_to_owned()?;
        AsyncFd::with_interest(terminal, Interest::READABLE).map(Self)
    }

    /// Waits for input and returns it; the bytes are empty at the end of input. Safe to drop at any time.
    pub(crate) async fn read(&self) -> io::Result<Vec<u8>> {
        loop {
            let mut guard = self.0.readable().await?;
            // Another reader may have taken the input since, and readiness is reported for new input only.
            if !has_input(guard.get_inner())? {
                guard.clear_ready();
                continue;
            }
            let mut bytes = vec![0; CHUNK];
            match rustix::io::read(guard.get_inner(), &mut bytes) {
                Ok(length) => {
                    bytes.truncate(length);
                    return Ok(bytes);
                }
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Returns true if a read would not block.
///
/// # Errors
/// Fails with [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the terminal hung up.
fn has_input(terminal: &OwnedFd) -> io::Result<bool> {
    let mut fds = [PollFd::new(terminal, PollFlags::IN)];
    match poll(&mut fds, Some(&NO_TIME)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
        Ok(_) => {
            let gone = fds.iter().any(|fd| fd.revents().contains(PollFlags::HUP));
            if gone { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(true) }
        }
        Err(error) => Err(error.into()),
    }
}
