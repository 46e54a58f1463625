//! The limits that end a search early.

use std::{
    io::{self, Read},
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

/// Cancellation and time limit of a search, which are checked often.
#[derive(Debug, Clone)]
pub(super) struct SearchDeadline {
    cancellation: CancellationToken,
    deadline: Instant,
}

impl SearchDeadline {
    pub(super) fn new(cancellation: CancellationToken, limit: Duration) -> Self {
        Self { cancellation, deadline: Instant::now() + limit }
    }

    /// Returns true if the search must stop.
    pub(super) fn is_due(&self) -> bool {
        self.is_cancelled() || self.is_late()
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    pub(super) fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }
}

/// A reader that fails once the search must stop, because one file can be large.
#[derive(Debug)]
pub(super) struct StoppableReader<'a, R> {
    pub(super) reader: R,
    pub(super) stop: &'a SearchDeadline,
}

impl<R: Read> Read for StoppableReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_due() {
            return Err(io::Error::other("the search was stopped"));
        }
        self.reader.read(buffer)
    }
}
