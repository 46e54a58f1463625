//! A request that is ready to be sent, as often as need be.

use std::time::Duration;

use bytes::Bytes;
use crow_core::model::{ProviderError, ProviderErrorKind};
use reqwest::{
    Response, Url,
    header::{CONTENT_TYPE, HeaderMap},
};

use super::{HttpClient, Timeouts};
use crate::{
    classify::{ErrorAnswer, not_sent, refused, request_id, shorten},
    retry::{AttemptFailure, AttemptReach},
    secret::Secrets,
};

/// How long the rest of such an answer is waited for.
const COMPLAINT_TIMEOUT: Duration = Duration::from_secs(5);
/// The most that is read of an answer that is no reply.
const MAX_COMPLAINT: usize = 64 * 1024;

/// A request that is ready to be sent.
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
    /// Sends the request and returns the answer once its head is there, if it promises an event stream. How long that may
    /// take is for the caller to say.
    pub(super) async fn send(&self) -> Result<Response, AttemptFailure> {
        let client = self.client.for_url(&self.url).await.map_err(|error| AttemptFailure {
            error: ProviderError::new(ProviderErrorKind::Network, error.to_string()),
            reach: AttemptReach::Wrong,
        })?;
        let request = client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .body(self.body.clone())
            .send();
        let response = request
            .await
            .map_err(|error| not_sent(&error, &self.host(), self.client.connect_timeout()))?;
        if is_stream(&response) {
            return Ok(response);
        }
        let error = self.complaint(response).await;
        // What is no stream at all is none the next time either.
        let is_foreign = error.kind == ProviderErrorKind::Decode;
        let reach = if is_foreign { AttemptReach::Wrong } else { AttemptReach::Answered };
        Err(AttemptFailure { error, reach })
    }

    /// Adds what the error cannot know and removes what it must not show.
    pub(super) fn complete(&self, mut error: ProviderError) -> ProviderError {
        error.provider.clone_from(&self.provider);
        error.url = shown(&self.url);
        for text in [Some(&mut error.message), error.code.as_mut(), error.request_id.as_mut()] {
            let Some(text) = text else { continue };
            self.secrets.redact(text);
            shorten(text);
        }
        self.secrets.redact(&mut error.url);
        error
    }

    /// Returns the id of the request, for errors that come later.
    pub(super) fn request_id(response: &Response) -> Option<String> {
        request_id(response.headers())
    }

    async fn complaint(&self, mut response: Response) -> ProviderError {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = Vec::new();
        // Whatever can be read in time is better than nothing. Read to its end, the connection can be used again.
        while let Ok(Ok(Some(chunk))) =
            tokio::time::timeout(COMPLAINT_TIMEOUT, response.chunk()).await
        {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_COMPLAINT {
                break;
            }
        }
        body.truncate(MAX_COMPLAINT);
        // Before anything is cut: half a key is a secret, too.
        let mut body = String::from_utf8_lossy(&body).into_owned();
        self.secrets.redact(&mut body);
        refused(ErrorAnswer { status, headers: &headers, body: &body })
    }

    fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        match self.url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }
}

/// An address without what may be secret in it.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // Both fail only for addresses that cannot hold a user.
    if url.set_password(None).is_ok() && url.set_username("").is_ok() {
        return url.into();
    }
    url.path().to_owned()
}

/// Some servers stream without saying so, but nobody streams as JSON or as a web page.
fn is_stream(response: &Response) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    response.status().is_success() && !matches!(kind.as_str(), "application/json" | "text/html")
}
