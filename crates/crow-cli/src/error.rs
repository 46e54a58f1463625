//! Errors of the commands, before and around a run.

use crow_app::{AppError, AppErrorKind};
use crow_console::ExitCode;

/// An error for the user, with an exit code and a hint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CliError {
    /// Exit code of the process.
    pub exit: ExitCode,
    /// Stable identifier for programs, such as `usage`.
    pub code: &'static str,
    /// Description of the error.
    pub message: String,
    /// Advice to the user: a command or a setting that helps.
    pub hint: Option<String>,
}

impl CliError {
    /// Creates an error of the command line or the configuration.
    pub fn usage(message: impl Into<String>) -> Self {
        AppError::usage(message).into()
    }

    /// Creates an error of a file of the configuration.
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self { code: "config", ..Self::usage(message) }
    }

    /// Creates an error of any other kind.
    pub fn failed(message: impl Into<String>) -> Self {
        AppError::failed(message).into()
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl<E: Into<AppError>> From<E> for CliError {
    fn from(error: E) -> Self {
        let AppError { kind, code, message, hint } = error.into();
        let exit = match kind {
            AppErrorKind::Usage => ExitCode::Usage,
            AppErrorKind::Credentials => ExitCode::Credentials,
            AppErrorKind::Failed => ExitCode::Failed,
        };
        Self { exit, code, message, hint }
    }
}
