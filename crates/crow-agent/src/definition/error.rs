//! Errors of loading an agent.

use crow_core::config::ConfigError;

/// A reason for which an agent cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// One of its files is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No file describes an agent of that name.
    #[error("there is no agent \"{name}\"{} there are {}", .nearest.as_ref().map_or(";".to_owned(), |near| format!(", did you mean \"{near}\"?")), .known.join(", "))]
    Unknown {
        /// The name as given.
        name: String,
        /// The most similar name.
        nearest: Option<String>,
        /// All names.
        known: Vec<String>,
    },
}
