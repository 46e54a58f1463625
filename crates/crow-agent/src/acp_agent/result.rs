//! What a run came to.

use std::path::PathBuf;

use crow_core::{control::RunFinish, usage::TokenUsage};

/// What a run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// How it ended.
    pub finish: RunFinish,
    /// Whether checks bear a completed task out.
    pub verified: bool,
    /// The last words of the primary.
    pub text: Option<String>,
    /// Files that were created, changed or deleted, each once.
    pub files_changed: Vec<PathBuf>,
    /// What all model calls of the run used.
    pub usage: TokenUsage,
    /// Rounds that were begun.
    pub rounds: u32,
    /// Which of the coagents said that the task is done, if one did: the last of those that approved.
    pub completed_by: Option<usize>,
}
