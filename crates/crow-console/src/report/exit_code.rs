//! The exit code of a headless run.
//!
//! The outcome of the run decides the class (interrupted, limit, failed, ended); the provider error and refused calls
//! refine failed and ended runs. Scripts depend on the numbers: they are part of the versioned JSON contract.

use crow_core::{
    event::{FailureKind, RunOutcome},
    model::ProviderErrorKind,
    turn::TurnEnd,
};

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
            Self::Interrupted => 130,
        }
    }

    /// Returns the code with this number; unknown numbers map to [`Failed`](Self::Failed).
    pub(crate) fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Done,
            2 => Self::Usage,
            3 => Self::Credentials,
            4 => Self::Provider,
            5 => Self::Limit,
            6 => Self::Refused,
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
        let facts = RunFacts { outcome: Some(outcome), last_turn: None, provider_error, refused };
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
    fn a_run_that_never_ended_failed() {
        assert_eq!(ExitCode::from_facts(&RunFacts::default()), ExitCode::Failed);
    }
}
