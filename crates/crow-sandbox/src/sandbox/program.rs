//! Program that is started for a command.

use std::{ffi::OsString, path::PathBuf};

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

#[cfg(target_os = "linux")]
impl super::linux::PlatformConfinement {
    /// Returns the command unchanged: on Linux it is confined between fork and exec.
    #[expect(clippy::unused_self, reason = "elsewhere something else is started")]
    pub(super) fn program(&self, command: Program) -> Program {
        command
    }
}
