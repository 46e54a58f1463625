//! The report of a run. The documentation of the types is the description in the JSON Schema.

use crow_core::{event::FORMAT_VERSION, permission::DenialSource, usage::TokenUsage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ExitCode;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportOutcome {
    /// The agent says that the task is done.
    Completed,
    /// The agent answered and waits for the user.
    NeedsInput,
    /// A limit, the budget or the loop guard ended it.
    Stopped,
    /// The user ended it.
    Cancelled,
    /// It failed, or did not start.
    Failed,
}

/// The result of a run. The last line of the JSON output.
///
/// `error` is set if and only if `exit_code` is not 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunReport {
    /// The version of the format.
    pub schema_version: u32,
    /// The session; none if the run did not start.
    pub session_id: Option<String>,
    /// How it ended.
    pub outcome: ReportOutcome,
    /// The exit code of the process: 0 done, 1 failed, 2 usage or configuration, 3 credentials, 4 provider unavailable,
    /// 5 limit, 6 refused by policy, 130 interrupted.
    pub exit_code: u8,
    /// The answer: the text of the last reply; of a completed run whose last reply has none, the summary.
    pub text: String,
    /// What the agent says about the finished task.
    pub summary: Option<String>,
    /// True if all configured checks passed with the final files.
    pub verified: bool,
    /// Turns of all agents.
    pub turns: u32,
    /// Model calls of all agents that were answered.
    pub steps: u32,
    /// Tokens of all agents, and what they cost.
    pub usage: UsageReport,
    /// From the start of the run to its end.
    pub duration_ms: u64,
    /// The provider and model of the primary agent, as `provider/model`.
    pub model: Option<String>,
    /// The files that were changed, in the order of their first change.
    pub files_changed: Vec<String>,
    /// The calls that were refused, in order.
    pub refusals: Vec<RefusalReport>,
    /// The calls that failed and did not succeed later, in order. The last ones if there are many.
    #[serde(default)]
    pub failures: Vec<FailureReport>,
    /// Why the exit code is not 0.
    pub error: Option<ErrorReport>,
}

/// The tokens of a run, and what they cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageReport {
    /// The tokens.
    #[serde(flatten)]
    pub tokens: TokenUsage,
    /// The price in US dollars, if that of every model is known.
    pub cost_usd: Option<f64>,
}

/// A call that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusalReport {
    /// The agent that wanted to make the call.
    pub agent: String,
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// What the call would have done, in one line.
    pub title: String,
    /// Who refused it.
    pub source: DenialSource,
    /// Why.
    pub reason: String,
}

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailureReport {
    /// The agent that made the call.
    pub agent: String,
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// What the call was to do, in one line.
    pub title: String,
}

/// Why a run did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorReport {
    /// What kind of error it is, in one word: the kind of a provider's error (`auth`, `overloaded`, …), else the
    /// class of the exit code (`usage`, `limit`, `refused`, `interrupted`, `failed`, …).
    pub code: String,
    /// What is wrong.
    pub message: String,
    /// What can be done about it.
    pub hint: Option<String>,
}

impl ErrorReport {
    /// Creates an error with the name of `code` and without a hint.
    pub fn new(code: ExitCode, message: impl Into<String>) -> Self {
        Self { code: code.as_str().to_owned(), message: message.into(), hint: None }
    }

    /// Sets the hint on what the user can do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl RunReport {
    /// Creates the report of a run that never began: a usage error, a bad configuration, a session in use.
    pub fn not_started(code: ExitCode, error: ErrorReport) -> Self {
        Self {
            schema_version: FORMAT_VERSION,
            session_id: None,
            outcome: ReportOutcome::Failed,
            exit_code: code.number(),
            text: String::new(),
            summary: None,
            verified: false,
            turns: 0,
            steps: 0,
            usage: UsageReport::default(),
            duration_ms: 0,
            model: None,
            files_changed: Vec::new(),
            refusals: Vec::new(),
            failures: Vec::new(),
            error: Some(error),
        }
    }
    /// Returns the exit code as a type.
    pub fn code(&self) -> ExitCode {
        ExitCode::from_number(self.exit_code)
    }
}
