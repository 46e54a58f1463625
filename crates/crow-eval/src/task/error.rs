//! Errors of reading tasks.

use std::{io, path::PathBuf};

use crow_core::{capability::ProcessError, config::ConfigError};

/// Error of a task or a task set that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// A file has a mistake.
    #[error(transparent)]
    File(#[from] ConfigError),
    /// A file or folder cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A path has no tasks in any form.
    #[error(
        "{} has no tasks: neither task.toml, nor .meta/config.json, nor JSON lines, nor the package harness_bench",
        .path.display()
    )]
    NoTasks {
        /// The path.
        path: PathBuf,
    },
    /// Two tasks have the same name.
    #[error("two tasks are named {name}: {first} and {second}")]
    SameName {
        /// The name.
        name: String,
        /// Where the first one was read.
        first: String,
        /// Where the second one was read.
        second: String,
    },
    /// The tasks of a Python package cannot be listed.
    #[error("the tasks of {} cannot be listed: {reason}", .package.display())]
    Package {
        /// Folder of the package.
        package: PathBuf,
        /// The output of Python, or the reason why it did not run.
        reason: String,
    },
    /// Python cannot be started.
    #[error("the tasks of {} cannot be listed: {source}", .package.display())]
    Start {
        /// Folder of the package.
        package: PathBuf,
        /// The error of the process.
        source: ProcessError,
    },
}

impl TaskError {
    /// Makes an error for a path that cannot be read.
    pub(super) fn read(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Read { path, source }
    }
}
