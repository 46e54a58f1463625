//! A check: a command that verifies work.

use std::time::Duration;

/// A command whose success is the evidence that work is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Name of the check.
    pub name: String,
    /// The command line, run by `bash -c` in the working directory.
    pub command: String,
    /// Time limit. A check that exceeds it has failed.
    pub timeout: Duration,
}

impl Check {
    /// Time limit of a check that names none.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(10);

    /// Makes a check with the default time limit.
    pub fn new(name: impl Into<String>, command: impl Into<String>) -> Self {
        Self { name: name.into(), command: command.into(), timeout: Self::DEFAULT_TIMEOUT }
    }
}
