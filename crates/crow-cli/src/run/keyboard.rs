//! The terminal as what a person types at. No thread waits in a read that would swallow the next line.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{Interest, unix::AsyncFd};

/// The most bytes that are read at once.
const CHUNK: usize = 4096;
/// A wait that only looks.
const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Reads what is typed, when something is there.
#[derive(Debug)]
pub(crate) struct Keyboard(AsyncFd<OwnedFd>);

impl Keyboard {
    /// Watches what is standard input now, which is a terminal.
    #[expect(
        deprecated,
        reason = "its successor needs `unsafe`; the descriptor here is owned and stays open"
    )]
    pub(crate) fn new() -> io::Result<Self> {
        let terminal = io::stdin().as_fd().try_clone_to_owned()?;
        AsyncFd::with_interest(terminal, Interest::READABLE).map(Self)
    }

    /// Waits for something to be typed and returns it; nothing at the end of input. May be dropped at any time.
    pub(crate) async fn read(&self) -> io::Result<Vec<u8>> {
        loop {
            let mut guard = self.0.readable().await?;
            // Somebody else may have read meanwhile, and the system tells of new input only.
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

/// Returns whether a read would not wait. A terminal that is gone is an error.
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
