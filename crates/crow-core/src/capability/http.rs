//! HTTP requests. The one client of the process sends them.

use std::{fmt, pin::Pin};

use async_trait::async_trait;
use futures_core::Stream;

/// An HTTP request.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method.
    pub method: HttpMethod,
    /// The URL: `http` or `https`.
    pub url: String,
    /// Header names and values. A value may be a secret.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// The addresses that it may go to.
    pub reach: HttpReach,
}

/// The addresses that a request may go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpReach {
    /// Any: the user or the configuration chose the URL.
    Any,
    /// Public ones of the internet. A name is resolved once; if one of its addresses is not public, nothing is sent.
    Public,
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("HttpRequest")
            .field("method", &self.method)
            .field("url", &self.url)
            .field("headers", &names)
            .field("body", &self.body.len())
            .field("reach", &self.reach)
            .finish()
    }
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpMethod {
    /// GET.
    Get,
    /// POST.
    Post,
    /// DELETE.
    Delete,
}

/// The head of a response; the body streams.
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// Header names in lower case, and values; bytes that are no UTF-8 are replaced.
    pub headers: Vec<(String, String)>,
    /// The body, in chunks of any length.
    pub body: HttpBody,
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpResponse").field("status", &self.status).finish_non_exhaustive()
    }
}

/// The body of a response as it arrives. Dropping it closes the connection.
pub type HttpBody = Pin<Box<dyn Stream<Item = Result<Vec<u8>, HttpError>> + Send>>;

/// Error of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// The request is invalid: its URL or a header is wrong.
    #[error("the request cannot be made: {0}")]
    Request(String),
    /// The host is not on the internet, but the request may go only there: nothing was sent.
    #[error("{0} is an address of this machine or of the network around it")]
    NotPublic(String),
    /// No connection could be made: nothing was sent.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection broke; the server may have received the request.
    #[error("the connection broke off: {0}")]
    Broken(String),
}

/// Sends requests. Follows no redirects, and sets no time limit of its own.
#[async_trait]
pub trait Http: Send + Sync + fmt::Debug {
    /// Sends a request and returns when the head of the response has arrived.
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError>;
}
