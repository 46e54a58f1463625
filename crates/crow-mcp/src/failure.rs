//! Errors of connecting to servers and of calling their tools.

use std::time::Duration;

use crow_core::capability::ProcessError;

use crate::{oauth::LoginChallenge, text};

/// Number of lines of standard error that an error quotes, counted from the end.
const SHOWN: usize = 12;
/// Maximum length in bytes of the standard error that an error quotes.
const LONGEST: usize = 2 * 1024;

/// Error of connecting to a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectError {
    /// Its program cannot be started.
    #[error("{0}")]
    Start(String),
    /// Its configuration cannot be used.
    #[error("{0}")]
    Config(String),
    /// It took too long.
    #[error("it did not answer within {} s{}", .limit.as_secs_f64(), stderr_excerpt(.errors))]
    TimedOut {
        /// The time limit that passed.
        limit: Duration,
        /// The end of its standard error.
        errors: String,
    },
    /// It ended, or does not speak the protocol.
    #[error("{why}{}", stderr_excerpt(.errors))]
    Refused {
        /// The error.
        why: String,
        /// The end of its standard error.
        errors: String,
    },
    /// It wants a login.
    #[error("it needs a login: {hint}")]
    LoginRequired {
        /// The server's answer.
        challenge: LoginChallenge,
        /// How to log in.
        hint: String,
    },
    /// The session is ending.
    #[error("the session is ending")]
    Closed,
    /// The client that served it is gone for good: a new connection has other links.
    #[error("the client that provides it has disconnected")]
    Gone,
    /// The client replaced the servers of the session.
    #[error("the client removed it from the session")]
    Retired,
    /// It failed recently, and the next attempt is not due yet.
    #[error("{why} (next attempt in {} s)", .wait.as_secs().max(1))]
    BackingOff {
        /// The last error.
        why: String,
        /// The time until the next attempt.
        wait: Duration,
    },
}

impl From<ProcessError> for ConnectError {
    fn from(error: ProcessError) -> Self {
        if matches!(error, ProcessError::Cancelled | ProcessError::Closed) {
            return Self::Closed;
        }
        Self::Start(error.to_string())
    }
}

/// Error of a call without a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// It was cancelled.
    #[error("the call was cancelled")]
    Cancelled,
    /// It took too long. The server was told to stop.
    #[error("{0}")]
    TimedOut(String),
    /// The connection broke off before the call was sent.
    #[error("the connection to the server broke off before the call was sent: {0}")]
    Unsent(String),
    /// The connection broke off; the server may have done what it was asked.
    #[error(
        "the connection to the server broke off; it is unclear whether the call had effects: {0}"
    )]
    Lost(String),
    /// The server answered with an error.
    #[error("the server refused the call: {0}")]
    Refused(String),
    /// The client that forwards messages to the server did not deliver it, or returned no answer.
    #[error(
        "no answer came from the client that provides it; it is unclear whether the call had effects: {0}"
    )]
    LinkFailed(String),
    /// The server wants a login, or one with more scopes.
    #[error("{}", if .0.needs_more_scopes { "the login does not permit this call" } else { "the server needs a login" })]
    LoginRequired(LoginChallenge),
    /// The tool is no longer the one that was offered.
    #[error("{0}")]
    Changed(String),
    /// The server asked for further input that cannot be given.
    #[error("the server asked for input that cannot be given")]
    InputRequired,
    /// The user declined what the server asked for.
    #[error("the user declined what the server asked for")]
    Declined,
    /// The server asked for input again and again.
    #[error("the server asked for input again and again without a result")]
    TooManyRounds,
    /// The answer is not the result of a call.
    #[error("the server's answer is not a valid call result")]
    UnexpectedAnswer,
}

impl CallError {
    /// Converts an error after which the call would be made again, once the server has answered a part of it: then it may
    /// have had effects.
    pub(crate) fn after_answer(self) -> Self {
        match self {
            Self::Unsent(why) => Self::Lost(why),
            Self::LoginRequired(_) => Self::Lost(self.to_string()),
            error => error,
        }
    }
}

/// Returns the last lines of standard error as the end of a sentence; empty if there are none.
pub(crate) fn stderr_excerpt(errors: &str) -> String {
    let plain = text::sanitise(errors);
    let lines: Vec<&str> =
        plain.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let shown = lines[lines.len().saturating_sub(SHOWN)..].join("\n");
    match shown.trim() {
        "" => String::new(),
        shown => format!("; it printed:\n{}", crow_text::shorten(shown, LONGEST)),
    }
}
