//! The server over streamable HTTP, for clients with the token.

use std::sync::Arc;

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
};
use crow_runtime::{AccessToken, is_loopback_host};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::task_server::{ServeError, TaskServer};

/// Path of the server.
const ENDPOINT: &str = "/mcp";
/// Maximum size of the body of a request in bytes.
const LARGEST_BODY: usize = 4 * 1024 * 1024;

impl TaskServer {
    /// Serves clients over HTTP at `/mcp` until `stop` resolves. Clients must send the token.
    ///
    /// # Errors
    /// Fails if the listener is not on a loopback address, or cannot accept connections.
    pub async fn serve_http(
        &self,
        listener: TcpListener,
        token: AccessToken,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        let address = listener.local_addr().map_err(|error| ServeError(error.to_string()))?;
        if !address.ip().is_loopback() {
            return Err(ServeError(format!("{address} can be reached by other machines")));
        }
        let ended = CancellationToken::new();
        let tasks = self.clone();
        // Host names are checked below, by the same rules as those of the other servers of Crow.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_cancellation_token(ended.clone());
        let service = StreamableHttpService::new(
            move || Ok(tasks.clone()),
            Arc::new(LocalSessionManager::default()),
            config,
        );
        let router = Router::new()
            .nest_service(ENDPOINT, service)
            .layer(DefaultBodyLimit::max(LARGEST_BODY))
            .layer(middleware::from_fn_with_state(Arc::new(token), admit));
        let served = axum::serve(listener, router);
        let result = tokio::select! {
            served = std::future::IntoFuture::into_future(served) => {
                served.map_err(|error| ServeError(error.to_string()))
            }
            () = stop => Ok(()),
        };
        ended.cancel();
        result
    }
}

/// Refuses requests without the token, and those of web pages: under another host name, a page may have reached the
/// server through its own domain.
async fn admit(State(token): State<Arc<AccessToken>>, request: Request, next: Next) -> Response {
    match refusal(&token, request.headers()) {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    }
}

/// Returns why a request is refused, if it is.
fn refusal(token: &AccessToken, headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(header::HOST).unwrap_or_default();
    if !is_loopback_host(host) {
        return Some((StatusCode::FORBIDDEN, "the server is not known under this host name\n"));
    }
    let is_own_origin = text(header::ORIGIN).is_none_or(|origin| {
        let (_, of_origin) = origin.split_once("://").unwrap_or_default();
        of_origin.eq_ignore_ascii_case(host)
    });
    if !is_own_origin {
        return Some((StatusCode::FORBIDDEN, "pages of another origin are refused\n"));
    }
    let presented = text(header::AUTHORIZATION).unwrap_or_default();
    let is_known = token.matches(presented.strip_prefix("Bearer ").unwrap_or_default());
    (!is_known).then_some((StatusCode::UNAUTHORIZED, "the token is missing or wrong\n"))
}
