//! The server: its routes, and the life of its connections.

use std::{fmt, io, path::PathBuf, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Path, State},
    http::{StatusCode, header},
    middleware,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use crow_core::{ids::SessionId, model::Models, redact::Redactor};
use crow_runtime::{AgentHost, SessionStore};
use jiff::tz::TimeZone;
use tokio::{net::TcpListener, sync::Semaphore, task::spawn_blocking, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    access::{AccessRules, admit},
    actions, assets,
    connection::BoundedListener,
    error::ApiError,
    hosted::HostedSessions,
    overview::StoredSessions,
    server_state::LiveServerState,
    session_feed::SessionFeed,
    stream::PageStream,
};

/// Maximum number of open event streams: one for each visible page.
const MAX_STREAMS: usize = 64;
/// Number of reports and views that are rendered at the same time.
const RENDERED_AT_ONCE: usize = 2;
/// Maximum size of the body of a request, in bytes.
const MAX_BODY: usize = 1024 * 1024;
/// Time that connections have to end when the server stops.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

/// Parameters of a [`LiveServer`].
pub struct LiveServerParts {
    /// Creates and opens sessions.
    pub host: Arc<dyn AgentHost>,
    /// The store of the host's sessions.
    pub store: Arc<dyn SessionStore>,
    /// The models, for their prices.
    pub models: Arc<dyn Models>,
    /// Returns what removes the secrets that are known now from logs that other programs wrote.
    pub redactor: Box<dyn Fn() -> Redactor + Send + Sync>,
    /// Who may use the server.
    pub access: AccessRules,
    /// Folder that is proposed for new sessions.
    pub cwd: PathBuf,
    /// Time zone of the times that are shown.
    pub zone: TimeZone,
    /// Version of the program.
    pub version: String,
}

impl fmt::Debug for LiveServerParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveServerParts").field("cwd", &self.cwd).finish_non_exhaustive()
    }
}

/// The server of the live view.
#[derive(Debug)]
pub struct LiveServer {
    state: Arc<LiveServerState>,
    access: Arc<AccessRules>,
}

impl LiveServer {
    /// Creates a server.
    pub fn new(parts: LiveServerParts) -> Self {
        let state = LiveServerState {
            hosted: HostedSessions::new(parts.host),
            stored: Arc::new(StoredSessions::new(Arc::clone(&parts.store))),
            store: parts.store,
            models: parts.models,
            redactor: parts.redactor,
            cwd: parts.cwd,
            zone: parts.zone,
            version: parts.version,
            actions: TaskTracker::new(),
            rendering: Arc::new(Semaphore::new(RENDERED_AT_ONCE)),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            ended: CancellationToken::new(),
        };
        Self { state: Arc::new(state), access: Arc::new(parts.access) }
    }

    /// Serves pages until `stop` resolves; connections that are open then have a second to end. Agents are left running:
    /// they are the host's.
    ///
    /// # Errors
    /// Fails if the listener is not on a loopback address, or cannot accept connections.
    pub async fn serve(
        &self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            let message = format!("{address} can be reached by other machines");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let ended = self.state.ended.clone();
        let stopping = {
            let ended = ended.clone();
            async move {
                stop.await;
                ended.cancel();
            }
        };
        let served = axum::serve(BoundedListener::new(listener), self.router())
            .with_graceful_shutdown(stopping);
        let served = std::future::IntoFuture::into_future(served);
        tokio::pin!(served);
        let stored = Arc::clone(&self.state.stored);
        let reading = self.state.actions.spawn({
            let ended = ended.clone();
            async move { stored.keep_reading(ended).await }
        });
        let result = tokio::select! {
            result = &mut served => result,
            () = ended.cancelled() => {
                // One that never reads is not waited for.
                timeout(SHUTDOWN_GRACE, served).await.unwrap_or(Ok(()))
            }
        };
        ended.cancel();
        drop(reading.await);
        result
    }

    /// Waits for what the server started: the tasks that watch agents, and actions. The agents must have ended.
    pub async fn wait_for_end(&self) {
        self.state.hosted.wait_for_end().await;
        self.state.actions.close();
        self.state.actions.wait().await;
    }

    fn router(&self) -> Router {
        let router = Router::new()
            .route("/api/about", get(actions::about))
            .route("/api/events", get(overview_events))
            .route("/api/sessions", post(actions::start))
            .route("/api/sessions/{id}/events", get(session_events))
            .route("/api/sessions/{id}/open", post(actions::open))
            .route("/api/sessions/{id}/close", post(actions::close))
            .route("/api/sessions/{id}/messages", post(actions::send))
            .route("/api/sessions/{id}/cancel", post(actions::cancel))
            .route("/api/sessions/{id}/permissions/{request}", post(actions::answer_permission))
            .route("/api/sessions/{id}/questions/{request}", post(actions::answer_question))
            .route("/api/sessions/{id}/options", get(actions::options).post(actions::set_option))
            .route("/api/sessions/{id}/views", get(actions::views))
            .route("/api/sessions/{id}/report", get(actions::report))
            .with_state(Arc::clone(&self.state));
        assets::add_routes(router)
            .layer(DefaultBodyLimit::max(MAX_BODY))
            .layer(middleware::from_fn_with_state(Arc::clone(&self.access), admit))
    }
}

/// Streams the list of sessions.
async fn overview_events(State(state): State<Arc<LiveServerState>>) -> Result<Response, ApiError> {
    event_stream(&state, None)
}

/// Streams the list of sessions, and one session.
async fn session_events(
    State(state): State<Arc<LiveServerState>>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let id = SessionId::new(id);
    let metadata = if let Some(handle) = state.hosted.get(&id) {
        handle.metadata()
    } else {
        let (store, id) = (Arc::clone(&state.store), id.clone());
        let header = spawn_blocking(move || store.header(&id)).await;
        header.map_err(|error| {
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
        })??
    };
    let feed = SessionFeed::new(
        &id,
        &state.hosted,
        &state.store,
        &(state.redactor)(),
        (state.zone.clone(), &metadata.crow().cwd),
    );
    event_stream(&state, Some((id, feed)))
}

fn event_stream(
    state: &Arc<LiveServerState>,
    session: Option<(SessionId, SessionFeed)>,
) -> Result<Response, ApiError> {
    let permit = Arc::clone(&state.streams)
        .try_acquire_owned()
        .map_err(|_| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open"))?;
    let stream = PageStream::new(
        Arc::clone(&state.hosted),
        Arc::clone(&state.stored),
        session,
        state.ended.clone(),
        permit,
    );
    let headers = [(header::CONTENT_TYPE, "text/event-stream")];
    Ok((headers, stream.into_body()).into_response())
}
