//! The result of a run.

use std::path::PathBuf;

use crow_core::{control::RunFinish, usage::TokenUsage};

/// Result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// Reason for which the run ended.
    pub finish: RunFinish,
    /// True if the task was completed and checks confirm it.
    pub verified: bool,
    /// Last text of the primary.
    pub text: Option<String>,
    /// Files that were created, changed or deleted, each once.
    pub files_changed: Vec<PathBuf>,
    /// Tokens used by all model calls of the run.
    pub usage: TokenUsage,
    /// Rounds that were begun.
    pub rounds: u32,
    /// Index of the coagent that completed the task: the last one that approved. `None` if the primary completed it
    /// or nobody did.
    pub completed_by: Option<usize>,
}
