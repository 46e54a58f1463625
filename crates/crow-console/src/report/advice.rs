//! Error reports for runs that ended badly, with hints on what the user can do.

use crow_core::{
    model::{ProviderError, ProviderErrorKind},
    turn::{LimitKind, TurnEnd},
};

use super::{ErrorReport, ExitCode, run_state::RefusedCall};
use crate::program_hints::ProgramHints;

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
    let error = ErrorReport::new(ExitCode::Limit, end.to_string());
    match limit_hint(end, hints) {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// Builds the report of a run in whose last step the policy refused a call; the hint says how to permit it.
pub(super) fn refusal_error(call: &RefusedCall, hints: &ProgramHints) -> ErrorReport {
    let message = format!("policy refused a call of the last step: {}", call.title);
    let error = ErrorReport::new(ExitCode::Refused, message);
    match hints.for_refusal(&call.reason) {
        Some(hint) => error.with_hint(hint),
        None => error.with_hint(call.reason.clone()),
    }
}

/// Builds the report of an interrupted run; the hint says how to resume its session.
pub(super) fn interrupt_error(session_id: Option<&str>, hints: &ProgramHints) -> ErrorReport {
    let error = ErrorReport::new(ExitCode::Interrupted, "the run was interrupted");
    match session_id.zip(hints.resume) {
        Some((id, option)) => error.with_hint(format!("{option} {id} continues the session")),
        None => error,
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
