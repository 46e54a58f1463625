//! Why an agent cannot be used, and where its files say so.

use std::path::PathBuf;

/// Something in the files of an agent cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// A value of a file.
    #[error("{}:{line}:{column}: {message}", .path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// What is wrong and what to do about it.
        message: String,
    },
    /// A whole file.
    #[error("{}: {message}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// No file describes an agent of that name.
    #[error("there is no agent \"{name}\"{}; there are {}", .nearest.as_ref().map(|near| format!(", did you mean \"{near}\"?")).unwrap_or_default(), .known.join(", "))]
    Unknown {
        /// The name as given.
        name: String,
        /// The name that it is most like.
        nearest: Option<String>,
        /// All names.
        known: Vec<String>,
    },
}
