//! Program that is started for a command, and its end.

use std::{
    ffi::OsString, os::unix::process::ExitStatusExt as _, path::PathBuf, process::ExitStatus,
};

use crow_core::capability::ProcessEnd;

/// Program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// Path of the executable.
    pub path: PathBuf,
    /// Argument 0.
    pub name: OsString,
    /// Further arguments.
    pub arguments: Vec<OsString>,
}

/// Returns how a process ended.
pub(crate) fn process_end(status: ExitStatus) -> ProcessEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => ProcessEnd::Exited(code),
        // Without a code there is a signal.
        (None, signal) => ProcessEnd::Signaled(signal.unwrap_or(0)),
    }
}

#[cfg(target_os = "linux")]
impl super::linux::PlatformConfinement {
    /// Returns the command unchanged: on Linux it is confined between fork and exec.
    #[expect(clippy::unused_self, reason = "elsewhere something else is started")]
    pub(super) fn program(&self, command: Program) -> Program {
        command
    }
}
