//! A request that can be sent several times.

use std::time::Duration;

use bytes::Bytes;
use crow_core::model::{ProviderError, ProviderErrorKind};
use reqwest::{
    Response, Url,
    header::{CONTENT_TYPE, HeaderMap},
};

use super::{HttpClient, Timeouts};
use crate::{
    classify::{ErrorAnswer, answer_error, request_id, send_error, shorten},
    retry::{AttemptFailure, AttemptProgress},
    secret::Secrets,
};

/// Time limit for each piece of an answer that is no reply.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum bytes that are read of an answer that is no reply.
const MAX_ERROR_BODY: usize = 64 * 1024;

/// A request that can be sent several times.
pub(crate) struct OutgoingRequest {
    pub(crate) client: HttpClient,
    pub(crate) provider: String,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) timeouts: Timeouts,
    pub(crate) secrets: Secrets,
}

impl OutgoingRequest {
    /// Sends the request and returns the answer when its head has arrived, if it may be an event stream. The caller
    /// limits the time.
    pub(super) async fn send(&self) -> Result<Response, AttemptFailure> {
        let client = self.client.for_url(&self.url).await.map_err(|error| AttemptFailure {
            error: ProviderError::new(ProviderErrorKind::Network, error.to_string()),
            progress: AttemptProgress::Permanent,
        })?;
        let request = client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .body(self.body.clone())
            .send();
        let response = request
            .await
            .map_err(|error| send_error(&error, &self.host(), self.client.connect_timeout()))?;
        if is_stream(&response) {
            return Ok(response);
        }
        let error = self.read_error(response).await;
        // An answer that is no stream at all will not be one at the next attempt.
        let is_foreign = error.kind == ProviderErrorKind::Decode;
        let reach = if is_foreign { AttemptProgress::Permanent } else { AttemptProgress::Answered };
        Err(AttemptFailure { error, progress: reach })
    }

    /// Adds provider and address to an error, and removes secrets from it.
    pub(super) fn complete(&self, mut error: ProviderError) -> ProviderError {
        error.provider.clone_from(&self.provider);
        error.url = redact_url(&self.url);
        for text in [Some(&mut error.message), error.code.as_mut(), error.request_id.as_mut()] {
            let Some(text) = text else { continue };
            self.secrets.redact(text);
            shorten(text);
        }
        self.secrets.redact(&mut error.url);
        error
    }

    /// Returns the id of the request, for errors that occur later.
    pub(super) fn request_id(response: &Response) -> Option<String> {
        request_id(response.headers())
    }

    async fn read_error(&self, mut response: Response) -> ProviderError {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = Vec::new();
        // A partial body is better than none. Read to its end, the connection can be reused.
        while let Ok(Ok(Some(chunk))) =
            tokio::time::timeout(ERROR_BODY_TIMEOUT, response.chunk()).await
        {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_ERROR_BODY {
                break;
            }
        }
        body.truncate(MAX_ERROR_BODY);
        // Redacted before anything is cut: half a key is a secret, too.
        let mut body = String::from_utf8_lossy(&body).into_owned();
        self.secrets.redact(&mut body);
        answer_error(ErrorAnswer { status, headers: &headers, body: &body })
    }

    fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        match self.url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }
}

/// Returns an address without the parts that may be secret.
pub(crate) fn redact_url(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // Both fail only for addresses that cannot have a user.
    if url.set_password(None).is_ok() && url.set_username("").is_ok() {
        return url.into();
    }
    url.path().to_owned()
}

/// Returns true if an answer may be an event stream. Some servers do not declare it, but none streams as JSON or HTML.
fn is_stream(response: &Response) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    response.status().is_success() && !matches!(kind.as_str(), "application/json" | "text/html")
}
