//! Error reports for runs that ended badly, with hints on what the user can do. They name only the options and commands
//! that the program has.

use crow_core::{
    ending::EndAssessment,
    model::{ProviderError, ProviderErrorKind},
    turn::{LimitKind, TurnEnd},
};

use super::{ErrorReport, ExitCode, run_state::RefusedCall};

/// Options and commands of the program that shows the runs, as far as it has them. Advice names only these: the default
/// has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgramHints {
    /// The option that sets the permission mode, and what it permits.
    pub permissions: Option<PermissionsHint>,
    /// The command that explains by which rule a call is decided.
    pub explain_permissions: Option<&'static str>,
    /// The command that lists the models and the variables of their keys.
    pub list_models: Option<&'static str>,
    /// The option that chooses a model.
    pub model: Option<&'static str>,
    /// The option that limits the steps of a turn.
    pub max_steps: Option<&'static str>,
    /// The option that limits the rounds of a run.
    pub max_rounds: Option<&'static str>,
    /// The option that continues the session with the id that follows.
    pub resume: Option<&'static str>,
}

/// The option of a program that sets the permission mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermissionsHint {
    /// The option. A reason that names it needs no further advice.
    pub option: &'static str,
    /// What it permits with which value, beginning with the option.
    pub advice: &'static str,
}

impl ProgramHints {
    /// Returns the advice for a refusal with this reason; `None` if the reason contains one, or no mode permits the
    /// call.
    pub(crate) fn for_refusal(&self, reason: &str) -> Option<String> {
        if reason.contains("the rule `") {
            let explain = self.explain_permissions.map_or_else(String::new, |command| {
                format!("; `{command}` shows what decides a call")
            });
            return Some(format!("no mode overrules a rule{explain}"));
        }
        let permissions = self.permissions?;
        let says_enough =
            reason.contains(permissions.option) || reason.contains("no mode permits it");
        (!says_enough).then(|| permissions.advice.to_owned())
    }

    /// Returns ` with OPTION`, to be appended to an advice to choose another model, or nothing without the option.
    fn with_model_option(&self) -> String {
        self.model.map_or_else(String::new, |option| format!(" with {option}"))
    }
}

/// Builds the report of a provider error.
pub(super) fn provider_error(error: &ProviderError, hints: &ProgramHints) -> ErrorReport {
    ErrorReport {
        code: kind_word(error.kind).to_owned(),
        message: error.to_string(),
        hint: provider_hint(error.kind, hints),
    }
}

/// Builds the report of a turn that a limit ended.
pub(super) fn limit_error(end: &TurnEnd, hints: &ProgramHints) -> ErrorReport {
    ErrorReport {
        hint: limit_hint(end, hints),
        ..ErrorReport::new(ExitCode::Limit, end.to_string())
    }
}

/// Builds the report of a run in whose last step the policy refused a call; the hint says how to permit it.
pub(super) fn refusal_error(call: &RefusedCall, hints: &ProgramHints) -> ErrorReport {
    let message = format!("policy refused a call of the last step: {}", call.title);
    let hint = hints.for_refusal(&call.reason).unwrap_or_else(|| call.reason.clone());
    ErrorReport::new(ExitCode::Refused, message).with_hint(hint)
}

/// Builds the report of a run that stopped before its work was done; the hint says how to go on.
pub(super) fn stopped_error(
    assessment: &EndAssessment,
    session_id: Option<&str>,
    hints: &ProgramHints,
) -> ErrorReport {
    let reason = assessment.reason.as_deref().unwrap_or("the work is not done");
    let resume = session_id.zip(hints.resume);
    let with = if assessment.is_question { "an answer" } else { "a prompt" };
    ErrorReport {
        hint: resume.map(|(id, option)| format!("{option} {id} with {with} goes on")),
        ..ErrorReport::new(ExitCode::Stopped, format!("not done: {reason}"))
    }
}

/// Builds the report of an interrupted run; the hint says how to resume its session.
pub(super) fn interrupt_error(session_id: Option<&str>, hints: &ProgramHints) -> ErrorReport {
    let resume = session_id.zip(hints.resume);
    ErrorReport {
        hint: resume.map(|(id, option)| format!("{option} {id} continues the session")),
        ..ErrorReport::new(ExitCode::Interrupted, "the run was interrupted")
    }
}

fn provider_hint(kind: ProviderErrorKind, hints: &ProgramHints) -> Option<String> {
    let with = hints.with_model_option();
    Some(match kind {
        ProviderErrorKind::Auth => {
            let where_to_look = hints.list_models.map_or_else(String::new, |command| {
                format!("; `{command}` says which variable and what is found")
            });
            format!("set the provider's key in the environment{where_to_look}")
        }
        ProviderErrorKind::Permission => {
            format!("use a key with access to this model, or choose another{with}")
        }
        ProviderErrorKind::NotFound => match hints.list_models {
            Some(command) => {
                format!("`{command}` lists the models; check base_url if the address is wrong")
            }
            None => "check the name of the model, and base_url if the address is wrong".to_owned(),
        },
        ProviderErrorKind::ContextLength => "continue in a new session".to_owned(),
        ProviderErrorKind::RateLimited
        | ProviderErrorKind::Overloaded
        | ProviderErrorKind::Server
        | ProviderErrorKind::Timeout
        | ProviderErrorKind::Truncated => {
            format!("try again later, or choose another model{with}")
        }
        ProviderErrorKind::Quota => {
            format!("check the account's credit, or choose another provider{with}")
        }
        ProviderErrorKind::Network => "check the network and the provider's base_url".to_owned(),
        ProviderErrorKind::Decode => {
            "check that base_url and the provider's type fit together".to_owned()
        }
        // The provider's message says all there is to say.
        ProviderErrorKind::InvalidRequest
        | ProviderErrorKind::Refusal
        | ProviderErrorKind::Disabled => return None,
    })
}

fn limit_hint(end: &TurnEnd, hints: &ProgramHints) -> Option<String> {
    let raise = |option: Option<&str>| {
        option.map_or("raise the limit".to_owned(), |option| format!("{option} raises the limit"))
    };
    Some(match end {
        TurnEnd::MaxSteps { .. } | TurnEnd::Budget { limit: LimitKind::Steps } => {
            raise(hints.max_steps)
        }
        TurnEnd::Budget { limit: LimitKind::Rounds } => raise(hints.max_rounds),
        TurnEnd::Budget { limit: LimitKind::Tokens | LimitKind::Money | LimitKind::Time } => {
            "raise the limit in the agent's configuration".to_owned()
        }
        TurnEnd::DoomLoop { .. } => "say in a new prompt how to continue".to_owned(),
        TurnEnd::InvalidCalls | TurnEnd::OutputLimit => {
            format!("choose another model{}", hints.with_model_option())
        }
        TurnEnd::Condition { .. }
        | TurnEnd::Text
        | TurnEnd::TaskComplete { .. }
        | TurnEnd::SubmitForReview { .. }
        | TurnEnd::Refusal
        | TurnEnd::Cancelled
        | TurnEnd::Error { .. } => return None,
    })
}

fn kind_word(kind: ProviderErrorKind) -> &'static str {
    match kind {
        ProviderErrorKind::Auth => "auth",
        ProviderErrorKind::Permission => "permission",
        ProviderErrorKind::NotFound => "not_found",
        ProviderErrorKind::InvalidRequest => "invalid_request",
        ProviderErrorKind::ContextLength => "context_length",
        ProviderErrorKind::RateLimited => "rate_limited",
        ProviderErrorKind::Quota => "quota",
        ProviderErrorKind::Overloaded => "overloaded",
        ProviderErrorKind::Server => "server",
        ProviderErrorKind::Network => "network",
        ProviderErrorKind::Timeout => "timeout",
        ProviderErrorKind::Truncated => "truncated",
        ProviderErrorKind::Refusal => "refusal",
        ProviderErrorKind::Decode => "decode",
        ProviderErrorKind::Disabled => "disabled",
    }
}

/// Options and commands of a program, for tests.
#[cfg(test)]
pub(crate) const SAMPLE_HINTS: ProgramHints = ProgramHints {
    permissions: Some(PermissionsHint {
        option: "--permissions",
        advice: "--permissions accept-edits permits edits in the workspace, full-auto what the sandbox allows; a rule other paths",
    }),
    explain_permissions: Some("crow-agent permissions explain"),
    list_models: Some("crow-agent models"),
    model: Some("--model"),
    max_steps: Some("--max-steps"),
    max_rounds: Some("--max-rounds"),
    resume: Some("--resume"),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_only_what_the_program_has() {
        let none = ProgramHints::default();
        assert_eq!(none.for_refusal("it changes files"), None);
        let by_rule = none.for_refusal("the rule `no-push` denies it");
        assert_eq!(by_rule.as_deref(), Some("no mode overrules a rule"));
        assert_eq!(none.with_model_option(), "");
        let hints = ProgramHints {
            permissions: Some(PermissionsHint {
                option: "--mode",
                advice: "--mode all permits it",
            }),
            model: Some("--model"),
            ..none
        };
        let refusal = hints.for_refusal("it changes files");
        assert_eq!(refusal.as_deref(), Some("--mode all permits it"));
        assert_eq!(hints.for_refusal("nobody to ask; see --mode"), None);
        assert_eq!(hints.for_refusal("no mode permits it"), None);
        assert_eq!(hints.with_model_option(), " with --model");
    }
}
