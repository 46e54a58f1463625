//! Failures below HTTP, worded for users.

use std::{error::Error, io, time::Duration};

use crow_core::model::{ProviderError, ProviderErrorKind};

use super::answer::one_line;
use crate::retry::{AttemptFailure, AttemptProgress};

/// Converts the failure of a request to `host` that got no answer.
pub(crate) fn send_error(
    error: &reqwest::Error,
    host: &str,
    connect_timeout: Duration,
) -> AttemptFailure {
    let causes = Causes::of_error(error);
    if error.is_builder() {
        let message = format!("the request cannot be built: {}", causes.deepest());
        let error = ProviderError::new(ProviderErrorKind::InvalidRequest, message);
        return AttemptFailure { error, progress: AttemptProgress::Permanent };
    }
    let is_connect = error.is_connect();
    let (reach, message) = if let Some(message) = causes.tls(host) {
        (AttemptProgress::Permanent, message)
    } else if is_connect && error.is_timeout() {
        let seconds = connect_timeout.as_secs_f32();
        (AttemptProgress::Unreachable, format!("no connection to {host} within {seconds} s"))
    } else if causes.has(io::ErrorKind::ConnectionRefused) {
        let message = format!("{host} refused the connection; is the server running there?");
        (AttemptProgress::Unreachable, message)
    } else if causes.mention("dns error") || causes.mention("lookup address") {
        let message = format!(
            "the name {host} cannot be resolved; is the network up, and is the base URL right?"
        );
        (AttemptProgress::Unreachable, message)
    } else if is_connect {
        (AttemptProgress::Unreachable, format!("no connection to {host}: {}", causes.deepest()))
    } else {
        // Often a pooled connection that the server closed at that moment.
        let message =
            format!("the connection to {host} broke before an answer came: {}", causes.deepest());
        (AttemptProgress::Answered, message)
    };
    AttemptFailure {
        error: ProviderError::new(ProviderErrorKind::Network, message),
        progress: reach,
    }
}

/// Converts the error of a reply whose body broke off.
pub(crate) fn body_error(error: &reqwest::Error) -> ProviderError {
    let message = format!("the connection broke: {}", Causes::of_error(error).deepest());
    ProviderError::new(ProviderErrorKind::Network, message)
}

/// An error and its causes, the outermost first.
struct Causes<'a>(Vec<&'a (dyn Error + 'static)>);

impl<'a> Causes<'a> {
    fn of_error(error: &'a (dyn Error + 'static)) -> Self {
        const DEEPEST: usize = 16;
        let mut causes = Vec::new();
        let mut next = Some(error);
        while let Some(cause) = next.filter(|_| causes.len() < DEEPEST) {
            causes.push(cause);
            // The `source` of an I/O error is the source of the error that it wraps; `get_ref` returns the wrapped
            // error.
            let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            next = match inner {
                Some(inner) => Some(inner),
                None => cause.source(),
            };
        }
        Self(causes)
    }

    fn has(&self, kind: io::ErrorKind) -> bool {
        self.0.iter().any(|cause| {
            cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == kind)
        })
    }

    fn mention(&self, word: &str) -> bool {
        self.0.iter().any(|cause| cause.to_string().contains(word))
    }

    fn deepest(&self) -> String {
        self.0.last().map(|cause| one_line(&cause.to_string())).unwrap_or_default()
    }

    fn tls(&self, host: &str) -> Option<String> {
        let error = self.0.iter().find_map(|cause| cause.downcast_ref::<rustls::Error>())?;
        #[expect(clippy::wildcard_enum_match_arm, reason = "a library's open list of causes")]
        let message = match error {
            rustls::Error::InvalidCertificate(reason) => format!(
                "the certificate of {host} is not trusted: {}",
                one_line(&reason.to_string())
            ),
            rustls::Error::InvalidMessage(_) => format!(
                "{host} does not speak TLS; should the base URL begin with http:// in place of https://?"
            ),
            other => format!("no secure connection to {host}: {}", one_line(&other.to_string())),
        };
        Some(message)
    }
}
