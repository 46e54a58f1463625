//! Error responses, and the conversion of errors and run outcomes to the protocol.

use agent_client_protocol::{Error, ErrorCode, v1::schema::StopReason};
use crow_core::{
    event::{FailureKind, RunOutcome},
    ids::SessionId,
    model::ModelsError,
    turn::{LimitKind, TurnEnd},
};
use crow_runtime::{HandleError, HostError, SessionError};
use serde_json::json;

use super::content::{bounded, sanitise};

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
        HostError::NoCredentials { hint, .. } => hinted(ErrorCode::AUTH_REQUIRED, &text, hint),
        HostError::Refused { hint, .. } => hinted(ErrorCode::INVALID_PARAMS, &text, hint),
        HostError::Unsupported { .. } => with_text(ErrorCode::METHOD_NOT_FOUND, &text),
        _ => with_text(ErrorCode::INTERNAL_ERROR, &text),
    }
}

/// Converts an error of an agent's handle to an error response.
pub(crate) fn handle_error(error: &HandleError) -> Error {
    let text = error.to_string();
    match error {
        HandleError::Full { .. } | HandleError::CallNotOpen { .. } => {
            with_text(ErrorCode::INVALID_REQUEST, &text)
        }
        HandleError::Ended { id } => unknown_session(&text, id.as_str()),
        _ => with_text(ErrorCode::INTERNAL_ERROR, &text),
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
            FailureKind::Credentials => Err(with_text(ErrorCode::AUTH_REQUIRED, error)),
            FailureKind::Provider | FailureKind::Request | FailureKind::Other => {
                Err(with_text(ErrorCode::INTERNAL_ERROR, error))
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
        TurnEnd::Error { error } => Err(with_text(ErrorCode::INTERNAL_ERROR, error)),
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
        | SessionError::IsChild { .. } => with_text(ErrorCode::INVALID_PARAMS, &text),
        SessionError::Locked { .. } => with_text(ErrorCode::INVALID_REQUEST, &text),
        SessionError::Read { .. }
        | SessionError::Write { .. }
        | SessionError::Damaged { .. }
        | SessionError::NewerFormat { .. }
        | SessionError::ReservedKey(_)
        | SessionError::Inconsistent { .. }
        | _ => with_text(ErrorCode::INTERNAL_ERROR, &text),
    }
}

fn models_error(error: &ModelsError) -> Error {
    let text = error.to_string();
    match error {
        ModelsError::NoCredentials { .. } | ModelsError::NoneConfigured => {
            with_text(ErrorCode::AUTH_REQUIRED, &text)
        }
        ModelsError::UnknownProvider { .. } => with_text(ErrorCode::INVALID_PARAMS, &text),
        ModelsError::Unusable { .. } | _ => with_text(ErrorCode::INTERNAL_ERROR, &text),
    }
}

fn unknown_session(text: &str, id: &str) -> Error {
    with_text(ErrorCode::RESOURCE_NOT_FOUND, text).data(json!({ "sessionId": sanitise(id) }))
}

fn hinted(code: ErrorCode, text: &str, hint: &str) -> Error {
    let error = with_text(code, text);
    if hint.is_empty() {
        error
    } else {
        error.data(json!({ "hint": bounded(&sanitise(hint), MOST_MESSAGE) }))
    }
}

fn with_text(code: ErrorCode, text: &str) -> Error {
    Error::new(code, bounded(&sanitise(text), MOST_MESSAGE))
}

/// Returns the error for invalid parameters.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::INVALID_PARAMS, message)
}

/// Returns the error for a session that is not attached to the connection.
pub(crate) fn not_open(id: &SessionId) -> Error {
    Error::new(
        ErrorCode::RESOURCE_NOT_FOUND,
        format!("session {id} is not open here; load or resume it"),
    )
}
