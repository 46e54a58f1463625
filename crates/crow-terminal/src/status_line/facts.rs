//! The values that a status line shows.

use std::time::Duration;

/// The values that a status line shows. A field without a value is left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatusFacts {
    pub agent: Option<String>,
    /// The mode of the agent, such as `plan`.
    pub mode: Option<String>,
    /// The permission mode.
    pub permissions: Option<String>,
    pub model: Option<String>,
    /// The effort of the model's reasoning.
    pub thinking: Option<String>,
    /// Tokens of the session that the model read.
    pub tokens_in: Option<u64>,
    /// Tokens of the session that the model wrote.
    pub tokens_out: Option<u64>,
    /// Part of the tokens that were read from a cache, in percent.
    pub cache_percent: Option<u64>,
    /// Cost of the session in US dollars. Zero is not shown.
    pub cost_usd: Option<f64>,
    /// Part of the context window that is in use, in percent.
    pub context_percent: Option<u64>,
    /// Part of the budget that is spent, in percent.
    pub budget_percent: Option<u64>,
    /// The branch of the version control.
    pub branch: Option<String>,
    /// The working directory, in the form in which it is to be shown.
    pub cwd: Option<String>,
    /// The name or the id of the session.
    pub session: Option<String>,
    /// Duration of the run that goes on, or of the last one.
    pub time: Option<Duration>,
    /// Number of jobs that run in the background. Zero is not shown.
    pub jobs: u64,
}
