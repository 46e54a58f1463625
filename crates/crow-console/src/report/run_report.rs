//! The report of a run, and the exit code that it means. The documentation of the types of the report is the description in
//! the JSON Schema.
//!
//! The outcome of the run decides the class of the code (interrupted, limit, failed, ended); the provider error and refused
//! calls refine failed and ended runs. Scripts depend on the numbers: they are part of the versioned JSON contract.

use crow_core::{
    ending::{EndAssessment, EndKind},
    event::{FORMAT_VERSION, FailureKind, RunOutcome},
    model::ProviderErrorKind,
    permission::DenialSource,
    turn::TurnEnd,
    usage::TokenUsage,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
/// `error` is set if and only if `exit_code` is neither 0 nor 8.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunReport {
    /// The version of the format.
    pub schema_version: u32,
    /// The session; none if the run did not start.
    pub session_id: Option<String>,
    /// How it ended.
    pub outcome: ReportOutcome,
    /// The exit code of the process: 0 done, 1 failed, 2 usage or configuration, 3 credentials, 4 provider unavailable,
    /// 5 limit, 6 refused by policy, 7 stopped before the work was done, 8 a review found something, 130 interrupted.
    pub exit_code: u8,
    /// The answer: the text of the last reply; of a completed run whose last reply has none, the summary.
    pub text: String,
    /// The answer as JSON, if it had to fit a schema.
    #[serde(default)]
    pub structured_output: Option<Value>,
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
    /// What the end of the run means, if the agents ended it by themselves: done, answered or stopped, with the evidence
    /// and what speaks against it.
    #[serde(default)]
    pub assessment: Option<EndAssessment>,
    /// Why the exit code is neither 0 nor 8.
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
            structured_output: None,
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
            assessment: None,
            error: Some(error),
        }
    }
    /// Returns the exit code as a type.
    pub fn code(&self) -> ExitCode {
        ExitCode::from_number(self.exit_code)
    }
}

/// The exit code of a headless run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCode {
    /// The run ended normally.
    Done,
    /// The run failed for a reason other than those below.
    Failed,
    /// The command line, the configuration or the model's name is wrong, or the session is in use.
    Usage,
    /// Credentials are missing or were rejected.
    Credentials,
    /// The provider is unavailable, or the account's quota is used up.
    Provider,
    /// A limit, the budget or the loop guard ended the run.
    Limit,
    /// The last step with calls had one refused by policy, and no completion was accepted after it.
    Refused,
    /// It stopped before the work was done: the log contradicts the claim, or it ended with a promise, a plan or a
    /// question.
    Stopped,
    /// A review found something.
    Findings,
    /// The run was interrupted or terminated.
    Interrupted,
}

/// Facts of a finished run that decide its exit code.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunFacts<'a> {
    /// Outcome of the run; `None` if it broke off without one.
    pub outcome: Option<&'a RunOutcome>,
    /// End of the last turn of the root session.
    pub last_turn: Option<&'a TurnEnd>,
    /// Kind of the provider error after which no model call succeeded.
    pub provider_error: Option<ProviderErrorKind>,
    /// True if policy refused a call in the last step with calls and no completion was accepted after it.
    pub refused: bool,
    /// What the end of the run means.
    pub end: Option<EndKind>,
}

/// Class of the reason for which a run is over.
enum ExitCause {
    Interrupted,
    Limit,
    Failed,
    Ended,
}

impl ExitCode {
    /// Returns the first code that applies of interrupted, usage, credentials, provider, limit, refused, failed, done.
    pub fn from_facts(facts: &RunFacts<'_>) -> Self {
        let refused = facts.refused && !matches!(facts.outcome, Some(RunOutcome::Completed { .. }));
        match cause(facts) {
            ExitCause::Interrupted => Self::Interrupted,
            ExitCause::Limit => Self::Limit,
            ExitCause::Ended if refused => Self::Refused,
            ExitCause::Ended if facts.end == Some(EndKind::Stopped) => Self::Stopped,
            ExitCause::Ended => Self::Done,
            ExitCause::Failed => {
                let default_code = if is_request(facts) { Self::Usage } else { Self::Failed };
                let code = facts.provider_error.map_or(default_code, provider_code);
                if refused && code == Self::Failed { Self::Refused } else { code }
            }
        }
    }

    /// Returns the number with which the process exits.
    pub fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Credentials => 3,
            Self::Provider => 4,
            Self::Limit => 5,
            Self::Refused => 6,
            Self::Stopped => 7,
            Self::Findings => 8,
            Self::Interrupted => 130,
        }
    }

    /// Returns the code with this number; unknown numbers map to [`Failed`](Self::Failed).
    fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Done,
            2 => Self::Usage,
            3 => Self::Credentials,
            4 => Self::Provider,
            5 => Self::Limit,
            6 => Self::Refused,
            7 => Self::Stopped,
            8 => Self::Findings,
            130 => Self::Interrupted,
            _ => Self::Failed,
        }
    }

    /// Returns the name of the code in an error report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Credentials => "credentials",
            Self::Provider => "provider",
            Self::Limit => "limit",
            Self::Refused => "refused",
            Self::Stopped => "stopped",
            Self::Findings => "findings",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.number())
    }
}

/// Returns true if the run failed because the request or the settings are wrong.
fn is_request(facts: &RunFacts<'_>) -> bool {
    matches!(facts.outcome, Some(RunOutcome::Failed { kind: FailureKind::Request, .. }))
}

fn cause(facts: &RunFacts<'_>) -> ExitCause {
    match facts.outcome {
        None | Some(RunOutcome::Failed { .. }) => ExitCause::Failed,
        Some(RunOutcome::Cancelled) => ExitCause::Interrupted,
        Some(RunOutcome::Completed { .. }) => ExitCause::Ended,
        Some(RunOutcome::Stopped { reason }) => cause_of_turn(reason),
        Some(RunOutcome::NeedsInput) => facts.last_turn.map_or(ExitCause::Ended, cause_of_turn),
    }
}

fn cause_of_turn(end: &TurnEnd) -> ExitCause {
    match end {
        TurnEnd::Text | TurnEnd::TaskComplete { .. } | TurnEnd::SubmitForReview { .. } => {
            ExitCause::Ended
        }
        TurnEnd::MaxSteps { .. }
        | TurnEnd::DoomLoop { .. }
        | TurnEnd::InvalidCalls
        | TurnEnd::OutputLimit
        | TurnEnd::Budget { .. }
        | TurnEnd::Condition { .. } => ExitCause::Limit,
        TurnEnd::Cancelled => ExitCause::Interrupted,
        TurnEnd::Refusal | TurnEnd::Error { .. } => ExitCause::Failed,
    }
}

/// Returns the code of a provider error, by who must act on it ([`FailureKind`]). A request that is wrong for another reason
/// than the name of its model, and a reply that cannot be read, are not sorted further.
fn provider_code(kind: ProviderErrorKind) -> ExitCode {
    match FailureKind::from(kind) {
        FailureKind::Credentials => ExitCode::Credentials,
        FailureKind::Provider if kind == ProviderErrorKind::Decode => ExitCode::Failed,
        FailureKind::Provider => ExitCode::Provider,
        FailureKind::Request if kind == ProviderErrorKind::NotFound => ExitCode::Usage,
        FailureKind::Request | FailureKind::Refusal | FailureKind::Other => ExitCode::Failed,
    }
}

#[cfg(test)]
mod tests {
    use crow_core::turn::LimitKind;

    use super::*;

    fn completed() -> RunOutcome {
        RunOutcome::Completed { summary: String::new(), verified: false }
    }

    fn stopped(reason: TurnEnd) -> RunOutcome {
        RunOutcome::Stopped { reason }
    }

    fn failed() -> RunOutcome {
        crow_core::event::Failure::other("no").into()
    }

    fn number_of(
        outcome: &RunOutcome,
        provider_error: Option<ProviderErrorKind>,
        refused: bool,
    ) -> u8 {
        let facts =
            RunFacts { outcome: Some(outcome), provider_error, refused, ..RunFacts::default() };
        ExitCode::from_facts(&facts).number()
    }

    #[test]
    fn the_first_code_that_applies_is_returned() {
        use ProviderErrorKind as Kind;
        let budget = || stopped(TurnEnd::Budget { limit: LimitKind::Money });
        let table = [
            (RunOutcome::Cancelled, Some(Kind::Auth), true, 130),
            (failed(), Some(Kind::NotFound), true, 2),
            (failed(), Some(Kind::Auth), true, 3),
            (failed(), Some(Kind::Overloaded), true, 4),
            (budget(), None, true, 5),
            (budget(), Some(Kind::Network), false, 5),
            (RunOutcome::NeedsInput, None, true, 6),
            (failed(), Some(Kind::ContextLength), true, 6),
            (failed(), None, true, 6),
            (failed(), None, false, 1),
            (failed(), Some(Kind::Decode), false, 1),
            (RunOutcome::NeedsInput, None, false, 0),
            (completed(), None, false, 0),
            (completed(), None, true, 0),
            (completed(), Some(Kind::Auth), false, 0),
        ];
        for (outcome, error, refused, expected) in table {
            assert_eq!(
                number_of(&outcome, error, refused),
                expected,
                "{outcome:?} {error:?} {refused}"
            );
        }
    }

    #[test]
    fn each_kind_of_provider_error_has_its_code() {
        use ProviderErrorKind as Kind;
        let table = [
            (Kind::Auth, 3),
            (Kind::Permission, 3),
            (Kind::NotFound, 2),
            (Kind::InvalidRequest, 1),
            (Kind::ContextLength, 1),
            (Kind::RateLimited, 4),
            (Kind::Quota, 4),
            (Kind::Overloaded, 4),
            (Kind::Server, 4),
            (Kind::Network, 4),
            (Kind::Timeout, 4),
            (Kind::Truncated, 4),
            (Kind::Refusal, 1),
            (Kind::Decode, 1),
            (Kind::Disabled, 4),
        ];
        for (kind, expected) in table {
            assert_eq!(number_of(&failed(), Some(kind), false), expected, "{kind:?}");
        }
    }

    #[test]
    fn a_run_that_fails_by_its_settings_has_the_code_of_a_wrong_configuration() {
        let failed = |kind| RunOutcome::Failed { error: String::new(), kind };
        assert_eq!(number_of(&failed(FailureKind::Request), None, false), 2);
        assert_eq!(number_of(&failed(FailureKind::Other), None, false), 1);
        let context = Some(ProviderErrorKind::ContextLength);
        assert_eq!(
            number_of(&failed(FailureKind::Request), context, false),
            1,
            "the provider says more"
        );
    }

    #[test]
    fn each_end_of_a_turn_has_its_code_whether_the_run_stopped_or_waits_for_input() {
        let table = [
            (TurnEnd::Text, 0),
            (TurnEnd::TaskComplete { summary: String::new() }, 0),
            (TurnEnd::SubmitForReview { summary: String::new() }, 0),
            (TurnEnd::MaxSteps { steps: 3 }, 5),
            (TurnEnd::DoomLoop { reason: String::new() }, 5),
            (TurnEnd::InvalidCalls, 5),
            (TurnEnd::OutputLimit, 5),
            (TurnEnd::Budget { limit: LimitKind::Rounds }, 5),
            (TurnEnd::Refusal, 1),
            (TurnEnd::Cancelled, 130),
            (TurnEnd::Error { error: String::new() }, 1),
        ];
        for (end, expected) in table {
            assert_eq!(number_of(&stopped(end.clone()), None, false), expected, "stopped: {end:?}");
            let waits = RunFacts {
                outcome: Some(&RunOutcome::NeedsInput),
                last_turn: Some(&end),
                ..RunFacts::default()
            };
            assert_eq!(ExitCode::from_facts(&waits).number(), expected, "needs input: {end:?}");
        }
    }

    #[test]
    fn a_run_that_stopped_before_its_work_was_done_has_its_own_code() {
        for outcome in [completed(), RunOutcome::NeedsInput] {
            let facts = RunFacts {
                outcome: Some(&outcome),
                end: Some(EndKind::Stopped),
                ..RunFacts::default()
            };
            assert_eq!(ExitCode::from_facts(&facts).number(), 7, "{outcome:?}");
            let done = RunFacts { end: Some(EndKind::Done), ..facts };
            assert_eq!(ExitCode::from_facts(&done).number(), 0, "{outcome:?}");
        }
    }

    #[test]
    fn a_run_that_never_ended_failed() {
        assert_eq!(ExitCode::from_facts(&RunFacts::default()), ExitCode::Failed);
    }
}
