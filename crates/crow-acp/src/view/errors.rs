//! Error responses, and the conversion of errors and run outcomes to the protocol.

use agent_client_protocol::{Error, v1::schema::StopReason};
use crow_core::{
    event::{FailureKind, RunOutcome},
    ids::SessionId,
    model::ModelsError,
    turn::{LimitKind, TurnEnd},
};
use crow_runtime::{HandleError, HostError, SessionError};
use serde_json::json;

use super::content::{bounded, sanitise};

/// Error code of a resource that does not exist.
const NOT_FOUND: i32 = -32002;
/// Largest message, in bytes.
const MOST_MESSAGE: usize = 4096;

/// Converts an error of the host to an error response.
pub(crate) fn host_error(error: &HostError) -> Error {
    let text = error.to_string();
    match error {
        HostError::Session(error) => session_error(error),
        HostError::Models(error) => models_error(error),
        HostError::Handle(error) => handle_error(error),
        HostError::NotOpen { id } => unknown_session(&text, id.as_str()),
        HostError::NoCredentials { hint, .. } => hinted(&Error::auth_required(), &text, hint),
        HostError::Refused { hint, .. } => hinted(&Error::invalid_params(), &text, hint),
        HostError::Unsupported { .. } => with_text(&Error::method_not_found(), &text),
        _ => with_text(&Error::internal_error(), &text),
    }
}

/// Converts an error of an agent's handle to an error response.
pub(crate) fn handle_error(error: &HandleError) -> Error {
    let text = error.to_string();
    match error {
        HandleError::Full { .. } | HandleError::CallNotOpen { .. } => {
            with_text(&Error::invalid_request(), &text)
        }
        HandleError::Ended { id } => unknown_session(&text, id.as_str()),
        _ => with_text(&Error::internal_error(), &text),
    }
}

/// Returns the stop reason of a prompt's run, or the error with which it ended.
pub(crate) fn run_end(outcome: &RunOutcome) -> Result<StopReason, Error> {
    match outcome {
        RunOutcome::Completed { .. } | RunOutcome::NeedsInput => Ok(StopReason::EndTurn),
        RunOutcome::Cancelled => Ok(StopReason::Cancelled),
        RunOutcome::Stopped { reason } => turn_end(reason),
        RunOutcome::Failed { error, kind } => match kind {
            FailureKind::Refusal => Ok(StopReason::Refusal),
            FailureKind::Credentials => Err(with_text(&Error::auth_required(), error)),
            FailureKind::Provider | FailureKind::Request | FailureKind::Other => {
                Err(with_text(&Error::internal_error(), error))
            }
        },
    }
}

fn turn_end(end: &TurnEnd) -> Result<StopReason, Error> {
    match end {
        TurnEnd::Text | TurnEnd::TaskComplete { .. } | TurnEnd::SubmitForReview { .. } => {
            Ok(StopReason::EndTurn)
        }
        TurnEnd::MaxSteps { .. }
        | TurnEnd::DoomLoop { .. }
        | TurnEnd::InvalidCalls
        | TurnEnd::Condition { .. }
        | TurnEnd::Budget {
            limit: LimitKind::Rounds | LimitKind::Money | LimitKind::Time | LimitKind::Steps,
        } => Ok(StopReason::MaxTurnRequests),
        TurnEnd::OutputLimit | TurnEnd::Budget { limit: LimitKind::Tokens } => {
            Ok(StopReason::MaxTokens)
        }
        TurnEnd::Refusal => Ok(StopReason::Refusal),
        TurnEnd::Cancelled => Ok(StopReason::Cancelled),
        TurnEnd::Error { error } => Err(with_text(&Error::internal_error(), error)),
    }
}

fn session_error(error: &SessionError) -> Error {
    let text = error.to_string();
    match error {
        SessionError::Unknown { id } => unknown_session(&text, id),
        SessionError::Closed { id } => unknown_session(&text, id.as_str()),
        SessionError::BadId { .. }
        | SessionError::Ambiguous { .. }
        | SessionError::Exists { .. }
        | SessionError::IsChild { .. } => with_text(&Error::invalid_params(), &text),
        SessionError::Locked { .. } => with_text(&Error::invalid_request(), &text),
        SessionError::Read { .. }
        | SessionError::Write { .. }
        | SessionError::Damaged { .. }
        | SessionError::NewerFormat { .. }
        | SessionError::ReservedKey(_)
        | SessionError::Inconsistent { .. }
        | _ => with_text(&Error::internal_error(), &text),
    }
}

fn models_error(error: &ModelsError) -> Error {
    let text = error.to_string();
    match error {
        ModelsError::NoCredentials { .. } | ModelsError::NoneConfigured => {
            with_text(&Error::auth_required(), &text)
        }
        ModelsError::UnknownProvider { .. } => with_text(&Error::invalid_params(), &text),
        ModelsError::Unusable { .. } | _ => with_text(&Error::internal_error(), &text),
    }
}

fn unknown_session(text: &str, id: &str) -> Error {
    Error::new(NOT_FOUND, bounded(&sanitise(text), MOST_MESSAGE))
        .data(json!({ "sessionId": sanitise(id) }))
}

fn hinted(error: &Error, text: &str, hint: &str) -> Error {
    let error = with_text(error, text);
    if hint.is_empty() {
        error
    } else {
        error.data(json!({ "hint": bounded(&sanitise(hint), MOST_MESSAGE) }))
    }
}

fn with_text(error: &Error, text: &str) -> Error {
    Error::new(error.code, bounded(&sanitise(text), MOST_MESSAGE))
}

/// Returns the error for invalid parameters.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    let mut error = Error::invalid_params();
    error.message = message.into();
    error
}

/// Returns the error for a session that is not attached to the connection.
pub(crate) fn not_open(id: &SessionId) -> Error {
    Error::new(NOT_FOUND, format!("session {id} is not open here; load or resume it"))
}
