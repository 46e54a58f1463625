//! Requests over HTTP. The one client of the process sends them.

use std::{fmt, pin::Pin};

use async_trait::async_trait;
use futures_core::Stream;

/// A request.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// What is to be done.
    pub method: HttpMethod,
    /// The address: `http` or `https`.
    pub url: String,
    /// Names and values. A value may be a secret.
    pub headers: Vec<(String, String)>,
    /// What is sent.
    pub body: Vec<u8>,
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("HttpRequest")
            .field("method", &self.method)
            .field("url", &self.url)
            .field("headers", &names)
            .field("body", &self.body.len())
            .finish()
    }
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpMethod {
    /// Read.
    Get,
    /// Send.
    Post,
    /// Remove.
    Delete,
}

/// The beginning of an answer; the rest streams.
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// Names in lower case, and values that are text.
    pub headers: Vec<(String, String)>,
    /// What comes, piece by piece, at any length.
    pub body: HttpBody,
}

impl fmt::Debug for HttpAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpAnswer").field("status", &self.status).finish_non_exhaustive()
    }
}

/// The body of an answer as it comes. Dropping it gives the connection up.
pub type HttpBody = Pin<Box<dyn Stream<Item = Result<Vec<u8>, HttpError>> + Send>>;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// The request cannot be made: its address or a header is wrong.
    #[error("the request cannot be made: {0}")]
    Request(String),
    /// No connection came about: nothing was sent.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// It broke off; the server may have seen the request.
    #[error("the connection broke off: {0}")]
    Broken(String),
}

/// Sends requests. Follows no redirects, and has no limit of its own on how long an answer takes.
#[async_trait]
pub trait Http: Send + Sync + fmt::Debug {
    /// Sends a request and returns when the head of the answer is there.
    async fn send(&self, request: HttpRequest) -> Result<HttpAnswer, HttpError>;
}
