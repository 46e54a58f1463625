//! Messages from a command's first processes to the program, through a pipe: six bytes each.

use std::{
    io::Read as _,
    os::fd::{BorrowedFd, OwnedFd},
};

use rustix::io::Errno;

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

    /// Reads until all writers have closed the pipe, and returns the last report.
    pub(super) fn receive(from: OwnedFd) -> Option<Self> {
        let mut bytes = Vec::new();
        std::fs::File::from(from).read_to_end(&mut bytes).ok()?;
        bytes.chunks_exact(LENGTH).filter_map(Self::parse).next_back()
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
            assert_eq!(InitReport::receive(reader.into()), Some(report));
        }
    }

    #[test]
    fn a_closed_pipe_without_data_gives_no_report() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(writer);
        assert_eq!(InitReport::receive(reader.into()), None);
    }
}
