//! What is started for a command.

use std::{ffi::OsString, path::PathBuf};

/// A program and what it is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// Where the program is.
    pub path: PathBuf,
    /// How it is called.
    pub name: OsString,
    /// What it is given beside its name.
    pub arguments: Vec<OsString>,
}

#[cfg(target_os = "linux")]
impl super::linux::PlatformConfinement {
    /// A command is confined after the fork, by what it inherits: it is started itself.
    #[expect(clippy::unused_self, reason = "elsewhere something else is started")]
    pub(super) fn program(&self, command: Program) -> Program {
        command
    }
}
