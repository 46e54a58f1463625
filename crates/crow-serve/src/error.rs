//! Errors of the interface, as JSON for the page.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use crow_runtime::{AnswerError, HandleError, HostError, SessionError};
use serde::Serialize;

use crate::message::text_for_page;

/// A refused or failed request.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    message: String,
    hint: String,
}

#[derive(Serialize)]
struct ApiErrorBody<'a> {
    error: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    hint: &'a str,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), hint: String::new() }
    }

    /// The request itself is invalid.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        // Messages may repeat what a model or a project wrote.
        let (error, hint) = (text_for_page(&self.message), text_for_page(&self.hint));
        let body = ApiErrorBody { error: &error, hint: &hint };
        // Two strings can always be serialized.
        let body = serde_json::to_string(&body).unwrap_or_default();
        (self.status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
}

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> Self {
        let status = match &error {
            SessionError::Unknown { .. } | SessionError::BadId { .. } => StatusCode::NOT_FOUND,
            SessionError::Locked { .. } | SessionError::IsChild { .. } => StatusCode::CONFLICT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

impl From<HandleError> for ApiError {
    fn from(error: HandleError) -> Self {
        Self::new(StatusCode::CONFLICT, error.to_string())
    }
}

impl From<AnswerError> for ApiError {
    fn from(error: AnswerError) -> Self {
        Self::new(StatusCode::CONFLICT, error.to_string())
    }
}

impl From<HostError> for ApiError {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Session(error) => error.into(),
            HostError::Handle(error) => error.into(),
            HostError::NoCredentials { message, hint } | HostError::Refused { message, hint } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, message).hint(hint)
            }
            HostError::NotOpen { .. } => {
                Self::new(StatusCode::CONFLICT, error.to_string()).hint("open the session first")
            }
            other => Self::new(StatusCode::UNPROCESSABLE_ENTITY, other.to_string()),
        }
    }
}
