//! Error reports for runs that ended badly, with hints on what the user can do.

use crow_core::{
    model::{ProviderError, ProviderErrorKind},
    turn::{LimitKind, TurnEnd},
};

use super::{ErrorReport, ExitCode, run_state::RefusedCall};
use crate::permit_hint::permit_hint;

/// Builds the report of a provider error.
pub(super) fn provider_error(error: &ProviderError) -> ErrorReport {
    ErrorReport {
        code: kind_word(error.kind).to_owned(),
        message: error.to_string(),
        hint: provider_hint(error.kind).map(str::to_owned),
    }
}

/// Builds the report of a turn that a limit ended.
pub(super) fn limit_error(end: &TurnEnd) -> ErrorReport {
    let error = ErrorReport::new(ExitCode::Limit, end.to_string());
    match limit_hint(end) {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// Builds the report of a run in whose last step the policy refused a call; the hint says how to permit it.
pub(super) fn refusal_error(call: &RefusedCall) -> ErrorReport {
    let message = format!("policy refused a call of the last step: {}", call.title);
    let error = ErrorReport::new(ExitCode::Refused, message);
    match permit_hint(&call.reason) {
        Some(hint) => error.with_hint(hint),
        None => error.with_hint(call.reason.clone()),
    }
}

/// Builds the report of an interrupted run; the hint says how to resume its session.
pub(super) fn interrupt_error(session_id: Option<&str>) -> ErrorReport {
    let error = ErrorReport::new(ExitCode::Interrupted, "the run was interrupted");
    match session_id {
        Some(id) => error.with_hint(format!("--resume {id} continues the session")),
        None => error,
    }
}

fn provider_hint(kind: ProviderErrorKind) -> Option<&'static str> {
    match kind {
        ProviderErrorKind::Auth => Some(
            "set the provider's key in the environment; `crow-agent models` says which variable and what is found",
        ),
        ProviderErrorKind::Permission => {
            Some("use a key with access to this model, or choose another with --model")
        }
        ProviderErrorKind::NotFound => {
            Some("`crow-agent models` lists the models; check base_url if the address is wrong")
        }
        ProviderErrorKind::ContextLength => Some("continue in a new session"),
        ProviderErrorKind::RateLimited
        | ProviderErrorKind::Overloaded
        | ProviderErrorKind::Server
        | ProviderErrorKind::Timeout
        | ProviderErrorKind::Truncated => {
            Some("try again later, or choose another model with --model")
        }
        ProviderErrorKind::Quota => {
            Some("check the account's credit, or choose another provider with --model")
        }
        ProviderErrorKind::Network => Some("check the network and the provider's base_url"),
        ProviderErrorKind::Decode => {
            Some("check that base_url and the provider's type fit together")
        }
        // The provider's message says all there is to say.
        ProviderErrorKind::InvalidRequest
        | ProviderErrorKind::Refusal
        | ProviderErrorKind::Disabled => None,
    }
}

fn limit_hint(end: &TurnEnd) -> Option<&'static str> {
    match end {
        TurnEnd::MaxSteps { .. } | TurnEnd::Budget { limit: LimitKind::Steps } => {
            Some("--max-steps raises the limit")
        }
        TurnEnd::Budget { limit: LimitKind::Rounds } => Some("--max-rounds raises the limit"),
        TurnEnd::Budget { limit: LimitKind::Tokens | LimitKind::Money | LimitKind::Time } => {
            Some("raise the limit in the agent's configuration")
        }
        TurnEnd::DoomLoop { .. } => Some("say in a new prompt how to continue"),
        TurnEnd::InvalidCalls | TurnEnd::OutputLimit => Some("choose another model with --model"),
        TurnEnd::Condition { .. }
        | TurnEnd::Text
        | TurnEnd::TaskComplete { .. }
        | TurnEnd::SubmitForReview { .. }
        | TurnEnd::Refusal
        | TurnEnd::Cancelled
        | TurnEnd::Error { .. } => None,
    }
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
