//! Asynchronous reads of terminal input. No thread blocks in a read: it would swallow the next line after a cancel.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::isatty,
};
use tokio::io::{Interest, unix::AsyncFd};

/// Maximum number of bytes per read.
const CHUNK: usize = 4096;
/// Timeout of a poll that does not wait.
const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Reader of the bytes typed at a terminal, or sent through a pipe.
#[derive(Debug)]
pub struct Keyboard {
    input: AsyncFd<OwnedFd>,
    is_terminal: bool,
}

impl Keyboard {
    /// Registers a duplicate of the current standard input, which must be a terminal or a pipe.
    ///
    /// # Errors
    /// Fails for a file, which cannot be waited for.
    pub fn new() -> io::Result<Self> {
        Self::from_descriptor(io::stdin().as_fd().try_clone_to_owned()?)
    }

    /// Registers a terminal or a pipe.
    ///
    /// # Errors
    /// Fails for a file that cannot be waited for.
    #[expect(
        deprecated,
        reason = "its successor needs `unsafe`; the descriptor here is owned and stays open"
    )]
    pub fn from_descriptor(descriptor: OwnedFd) -> io::Result<Self> {
        let is_terminal = isatty(&descriptor);
        let input = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
        Ok(Self { input, is_terminal })
    }

    /// Returns true if a person types at a terminal, which shows what is typed.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Waits for input and returns it; the bytes are empty at the end of input. Safe to drop at any time.
    pub async fn read(&self) -> io::Result<Vec<u8>> {
        loop {
            let mut guard = self.input.readable().await?;
            // Another reader may have taken the input since, and readiness is reported for new input only.
            if !self.has_input()? {
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

    /// Returns true if a read would not block.
    ///
    /// # Errors
    /// Fails with [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the terminal hung up, or if the pipe is closed and
    /// empty.
    fn has_input(&self) -> io::Result<bool> {
        let mut fds = [PollFd::new(self.input.get_ref(), PollFlags::IN)];
        match poll(&mut fds, Some(&NO_TIME)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
            Ok(_) => {
                let events = fds[0].revents();
                // A pipe is read to its end after the writer has closed it.
                let unread = !self.is_terminal && events.contains(PollFlags::IN);
                let gone = events.contains(PollFlags::HUP) && !unread;
                if gone { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(true) }
            }
            Err(error) => Err(error.into()),
        }
    }
}
