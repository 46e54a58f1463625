//! The values that a status line shows.

use std::time::Duration;

/// The values that a status line shows. A field without a value is left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StatusFacts {
    pub(crate) agent: Option<String>,
    /// The mode of the agent, such as `plan`.
    pub(crate) mode: Option<String>,
    /// The permission mode.
    pub(crate) permissions: Option<String>,
    pub(crate) model: Option<String>,
    /// The effort of the model's reasoning.
    pub(crate) thinking: Option<String>,
    /// Tokens that the models of the session read.
    pub(crate) tokens_in: Option<u64>,
    /// Tokens that the models of the session wrote.
    pub(crate) tokens_out: Option<u64>,
    /// Part of the tokens that were read from a cache, in percent.
    pub(crate) cache_percent: Option<u64>,
    /// Cost of the session in US dollars. Zero is not shown.
    pub(crate) cost_usd: Option<f64>,
    /// Part of the context window that is in use, in percent.
    pub(crate) context_percent: Option<u64>,
    /// Part of the budget of the run that goes on, or of the last one of this chat, that is used, in percent.
    pub(crate) budget_percent: Option<u64>,
    /// The branch of the version control.
    pub(crate) branch: Option<String>,
    /// The working directory, in the form in which it is to be shown.
    pub(crate) cwd: Option<String>,
    /// The title of the session, or its id.
    pub(crate) session: Option<String>,
    /// Duration of the run that goes on, or of the last one of this chat.
    pub(crate) time: Option<Duration>,
    /// Number of jobs that run in the background. Zero is not shown.
    pub(crate) jobs: u64,
}
