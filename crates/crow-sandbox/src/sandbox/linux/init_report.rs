//! Messages from a command's first processes to the program, through a pipe: six bytes each.

use std::{
    io::{self, Read as _},
    os::fd::{BorrowedFd, OwnedFd},
};

use rustix::io::Errno;
use tokio::net::unix::pipe;

/// Stage at which the set-up failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum SetupStage {
    Session = 1,
    Namespaces,
    Mounts,
    Folder,
    Rights,
    Files,
    Calls,
}

impl SetupStage {
    const ALL: [Self; 7] = [
        Self::Session,
        Self::Namespaces,
        Self::Mounts,
        Self::Folder,
        Self::Rights,
        Self::Files,
        Self::Calls,
    ];

    /// Returns a description of the stage for error messages.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Session => "leaving the terminal",
            Self::Namespaces => "entering the namespaces",
            Self::Mounts => "laying out the files",
            Self::Folder => "changing into the folder",
            Self::Rights => "giving up rights",
            Self::Files => "restricting files (Landlock)",
            Self::Calls => "restricting system calls (seccomp)",
        }
    }
}

/// Report about the set-up or the end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InitReport {
    /// The set-up failed.
    Failed(SetupStage, Errno),
    /// The command has ended.
    Ended {
        /// Raw status from `wait`.
        status: i32,
        /// True if processes that it had started still ran, and were told to end.
        left_running: bool,
    },
}

/// Reading end of the pipe for the reports of one init.
#[derive(Debug)]
pub(super) struct ReportPipe {
    end: PipeEnd,
    /// Received bytes.
    bytes: Vec<u8>,
}

#[derive(Debug)]
enum PipeEnd {
    Blocking(OwnedFd),
    Async(pipe::Receiver),
    Closed,
}

const FAILED: u8 = 0;
const ENDED: u8 = 16;
const LENGTH: usize = 6;

impl InitReport {
    /// Writes the report atomically: it is shorter than `PIPE_BUF`. Allocates nothing.
    pub(super) fn send(self, to: BorrowedFd<'_>) {
        let (kind, flag, number) = match self {
            Self::Failed(stage, error) => (FAILED, stage as u8, error.raw_os_error()),
            Self::Ended { status, left_running: was_left } => (ENDED, u8::from(was_left), status),
        };
        let [a, b, c, d] = number.to_le_bytes();
        // A failure of this write has no one to be reported to.
        let _ = rustix::io::write(to, &[kind, flag, a, b, c, d]);
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let &[kind, flag, a, b, c, d] = bytes else { return None };
        let number = i32::from_le_bytes([a, b, c, d]);
        if kind == ENDED {
            return Some(Self::Ended { status: number, left_running: flag != 0 });
        }
        let stage = SetupStage::ALL.into_iter().find(|stage| *stage as u8 == flag)?;
        Some(Self::Failed(stage, Errno::from_raw_os_error(number)))
    }
}

impl ReportPipe {
    pub(super) fn new(reader: io::PipeReader) -> Self {
        Self { end: PipeEnd::Blocking(reader.into()), bytes: Vec::new() }
    }

    /// Waits for the next bytes, and returns the last report so far. Returns `None` if all writers have closed the pipe
    /// or it cannot be read. Loses nothing when dropped.
    pub(super) async fn next(&mut self) -> Option<InitReport> {
        loop {
            let pipe = self.receiver()?;
            pipe.readable().await.ok()?;
            let mut bytes = [0; LENGTH];
            match pipe.try_read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => {
                    self.bytes.extend(bytes.iter().take(count));
                    if let Some(report) = self.last() {
                        return Some(report);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }

    /// Reads until all writers have closed the pipe, and returns the last report.
    pub(super) fn into_last(mut self) -> Option<InitReport> {
        let end = match std::mem::replace(&mut self.end, PipeEnd::Closed) {
            PipeEnd::Blocking(end) => end,
            PipeEnd::Async(pipe) => pipe.into_blocking_fd().ok()?,
            PipeEnd::Closed => return self.last(),
        };
        std::fs::File::from(end).read_to_end(&mut self.bytes).ok()?;
        self.last()
    }

    fn receiver(&mut self) -> Option<&pipe::Receiver> {
        if let PipeEnd::Blocking(_) = self.end
            && let PipeEnd::Blocking(end) = std::mem::replace(&mut self.end, PipeEnd::Closed)
        {
            self.end = PipeEnd::Async(pipe::Receiver::from_owned_fd(end).ok()?);
        }
        if let PipeEnd::Async(pipe) = &self.end { Some(pipe) } else { None }
    }

    fn last(&self) -> Option<InitReport> {
        self.bytes.chunks_exact(LENGTH).filter_map(InitReport::parse).next_back()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn the_last_report_is_received() {
        let ended = InitReport::Ended { status: 0x0100, left_running: true };
        for report in [ended, InitReport::Failed(SetupStage::Calls, Errno::PERM)] {
            let (reader, writer) = std::io::pipe().unwrap();
            InitReport::Failed(SetupStage::Session, Errno::INVAL).send(writer.as_fd());
            report.send(writer.as_fd());
            drop(writer);
            assert_eq!(ReportPipe::new(reader).into_last(), Some(report));
        }
    }

    #[test]
    fn a_closed_pipe_without_data_gives_no_report() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(writer);
        assert_eq!(ReportPipe::new(reader).into_last(), None);
    }
    #[tokio::test]
    async fn a_report_is_received_while_the_pipe_is_open_and_stays_the_last_one() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut pipe = ReportPipe::new(reader);
        let ended = InitReport::Ended { status: 0, left_running: false };
        let receive = pipe.next();
        ended.send(writer.as_fd());
        assert_eq!(receive.await, Some(ended));
        drop(writer);
        assert_eq!(pipe.next().await, None);
        assert_eq!(pipe.into_last(), Some(ended));
    }
}
