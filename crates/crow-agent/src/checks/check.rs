//! One check.

use std::time::Duration;

/// A command whose success is the evidence that work is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What it is called.
    pub name: String,
    /// The command line, run by `bash -c` in the working directory.
    pub command: String,
    /// How long it may run. One that runs longer has failed.
    pub timeout: Duration,
}

impl Check {
    /// How long a check may run that names no time of its own.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(10);

    /// Makes a check with the usual time to run.
    pub fn new(name: impl Into<String>, command: impl Into<String>) -> Self {
        Self { name: name.into(), command: command.into(), timeout: Self::DEFAULT_TIMEOUT }
    }
}
