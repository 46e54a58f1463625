//! Errors before and around a run, as a front end reports them.

use crow_core::model::ModelsError;
use crow_runtime::{HostError, RuleStoreError, SessionError, UndoError};

/// Class of an [`AppError`], from which a front end chooses the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppErrorKind {
    /// The request or the configuration is invalid.
    Usage,
    /// A key is missing or was rejected.
    Credentials,
    /// Anything else.
    Failed,
}

/// An error for the user, with a hint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AppError {
    /// Class of the error.
    pub kind: AppErrorKind,
    /// Stable identifier for programs, such as `usage`.
    pub code: &'static str,
    /// Description of the error.
    pub message: String,
    /// Advice to the user: a command or a setting that helps.
    pub hint: Option<String>,
}

impl AppError {
    /// Creates an error of the request or the configuration.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { kind: AppErrorKind::Usage, code: "usage", message: message.into(), hint: None }
    }

    /// Creates an error of any other kind.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { kind: AppErrorKind::Failed, code: "failed", message: message.into(), hint: None }
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl From<SessionError> for AppError {
    fn from(error: SessionError) -> Self {
        let message = error.to_string();
        match error {
            SessionError::Unknown { .. } | SessionError::Ambiguous { .. } => {
                Self { code: "unknown_session", ..Self::usage(message) }.hint("`crow-agent sessions list` shows them")
            }
            SessionError::Exists { .. } => {
                Self { code: "session_exists", ..Self::usage(message) }.hint("continue it with --resume, or choose another id")
            }
            SessionError::BadId { .. } => Self::usage(message),
            SessionError::Locked { .. } => {
                Self { code: "session_locked", ..Self::usage(message) }.hint("wait for that process, or end it")
            }
            SessionError::Write { .. } => Self { code: "storage", ..Self::usage(message) }
                .hint("make the folder writable, free disk space, or set XDG_DATA_HOME to another folder"),
            SessionError::Damaged { .. } | SessionError::Inconsistent { .. } => {
                Self { code: "session_damaged", ..Self::failed(message) }
                    .hint("it cannot be repaired: both header and log are damaged; its files are unchanged, `crow-agent sessions rm` removes them")
            }
            SessionError::NewerFormat { .. } => {
                Self { code: "session_format", ..Self::usage(message) }.hint("update crow-agent")
            }
            SessionError::Read { .. } | _ => Self { code: "storage", ..Self::failed(message) },
        }
    }
}

impl From<HostError> for AppError {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Session(error) => error.into(),
            HostError::Models(error) => error.into(),
            HostError::NoCredentials { message, hint } => Self {
                kind: AppErrorKind::Credentials,
                code: "no_credentials",
                message,
                hint: Some(hint),
            },
            HostError::Refused { message, hint } => {
                Self { hint: Some(hint).filter(|hint| !hint.is_empty()), ..Self::usage(message) }
            }
            error @ (HostError::Handle(_)
            | HostError::NotOpen { .. }
            | HostError::Unsupported { .. }
            | _) => Self::failed(error.to_string()),
        }
    }
}

impl From<UndoError> for AppError {
    fn from(error: UndoError) -> Self {
        let message = error.to_string();
        let usage = |code| Self { code, ..Self::usage(message.clone()) };
        match error {
            UndoError::Session(error) => error.into(),
            UndoError::Nothing { .. } | UndoError::NotCaptured(_) | UndoError::UndoneAlready => {
                Self { code: "nothing_to_undo", ..Self::failed(message) }
            }
            UndoError::Busy => Self { code: "busy", ..Self::failed(message) },
            UndoError::UnknownCall { .. }
            | UndoError::AmbiguousCall { .. }
            | UndoError::UnknownTurn { .. }
            | UndoError::TurnNotInConversation { .. } => usage("unknown_call")
                .hint("`crow-agent sessions show ID --changes` lists what was changed"),
            UndoError::UnknownPath { .. } | UndoError::NothingAtPath { .. } => {
                usage("unknown_path")
                    .hint("`crow-agent sessions show ID --changes` lists what was changed")
            }
            UndoError::ChatNeedsAll { turn } => {
                usage("usage").hint(format!("--back-to {turn} --chat undoes them all"))
            }
            UndoError::ChatNeedsAllPaths => usage("usage").hint("leave out --chat"),
            UndoError::ChatInUse { .. } => {
                usage("session_locked").hint("undo there, or leave out --chat")
            }
            UndoError::Snapshots(_) | UndoError::Unavailable | _ => {
                Self { code: "storage", ..Self::failed(message) }
            }
        }
    }
}

impl From<RuleStoreError> for AppError {
    fn from(error: RuleStoreError) -> Self {
        Self { code: "config", ..Self::usage(error.to_string()) }
            .hint("fix or remove the file; nothing runs until the rules can be read")
    }
}

impl From<ModelsError> for AppError {
    fn from(error: ModelsError) -> Self {
        let message = error.to_string();
        match error {
            ModelsError::NoCredentials { variable, provider } => Self {
                kind: AppErrorKind::Credentials,
                code: "no_credentials",
                message,
                hint: Some(format!(
                    "export {variable}=…, or `crow-agent login {provider}`, and try again"
                )),
            },
            ModelsError::UnknownProvider { .. } => {
                Self { code: "unknown_provider", ..Self::usage(message) }
                    .hint("`crow-agent models` shows them")
            }
            ModelsError::Unusable { .. } | ModelsError::NoneConfigured | _ => {
                Self { code: "provider_unusable", ..Self::usage(message) }
            }
        }
    }
}
