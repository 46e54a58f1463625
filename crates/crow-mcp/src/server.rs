//! A server of a session: its listed tools and its connection.
//!
//! [`McpServer::ready`] loads the cached listing and connects in the background. Later a call connects if there is no
//! open connection. `connecting` allows one attempt at a time, and each attempt is a task of its own, so that a
//! cancelled caller does not abort it. After a failure no attempt is made for a pause that doubles up to a minute.
//! While connected, `watch` lists the tools again after each change. A call runs only if its tool is still listed
//! exactly as it was offered.

use std::{
    collections::VecDeque,
    fmt,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crow_core::{
    event::NoticeLevel,
    mcp::McpTransport,
    tool::{SourceNotice, ToolContext},
};
use futures_util::FutureExt as _;
use rmcp::model::{
    CallToolResult, GetPromptResult, JsonObject, ReadResourceResult, Resource, ResourceTemplate,
};
use tokio::{
    sync::{OnceCell, watch},
    time::{Instant, sleep, timeout_at},
};
use tracing::Instrument as _;
use url::Url;

use crate::{
    cache::SchemaCache,
    connection::{Lifetime, Requester, ServerConnection},
    failure::{CallError, ConnectError},
    listed::{ListedTool, ToolListing},
    oauth::{LoginChallenge, QuestionDialog, log_in},
    settings::{ConnectionContext, McpSettings},
    text,
};

/// Delay before the next attempt after a first failure; it doubles with each further one.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// Maximum delay between attempts.
const MAX_BACKOFF: Duration = Duration::from_mins(1);
/// Minimum time between two requests for the tool list.
const BETWEEN_LISTS: Duration = Duration::from_secs(1);
/// Capacity of the queue of notices; further ones are dropped.
const MOST_NEWS: usize = 64;

/// State that the servers of a session share.
#[derive(Debug)]
pub(crate) struct ServersShared {
    pub(crate) context: ConnectionContext,
    pub(crate) cache: Option<SchemaCache>,
    pub(crate) lifetime: Lifetime,
    /// Incremented when the tools of any server change.
    pub(crate) revision: watch::Sender<u64>,
    pub(crate) notices: Mutex<VecDeque<SourceNotice>>,
}

impl ServersShared {
    pub(crate) fn push_notice(&self, level: NoticeLevel, text: String) {
        let mut news = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        if news.len() < MOST_NEWS {
            news.push_back(SourceNotice { level, text });
        }
    }
}

/// A server of a session.
pub(crate) struct McpServer {
    pub(crate) settings: McpSettings,
    /// Display name.
    pub(crate) label: String,
    /// Its part of the names of its tools, unique in the session.
    pub(crate) name_part: String,
    shared: Arc<ServersShared>,
    /// Child of the session's lifetime; `retire` cancels it earlier.
    lifetime: Lifetime,
    /// Time of the first `ready`.
    started: OnceCell<Instant>,
    state: Mutex<McpServerState>,
    /// Held during an attempt to connect.
    connecting: tokio::sync::Mutex<()>,
    /// Held while the user logs in during a call.
    logging_in: tokio::sync::Mutex<()>,
    /// True once the tools are listed or the first attempt has failed.
    settled: watch::Sender<bool>,
}

#[derive(Default)]
struct McpServerState {
    listed: Option<Arc<ToolListing>>,
    connection: Option<Arc<ServerConnection>>,
    /// The number of failures since the last success.
    failures: u32,
    backoff_until: Option<Instant>,
    last_error: Option<String>,
    /// True from a startup timeout until the tools are listed.
    is_late: bool,
}

/// Connection state of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Health {
    Unused,
    Connected,
    Failed(String),
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("name", &self.label).finish_non_exhaustive()
    }
}

impl McpServer {
    pub(crate) fn new(settings: McpSettings, part: String, shared: Arc<ServersShared>) -> Self {
        let Lifetime { token, tasks } = shared.lifetime.clone();
        Self {
            lifetime: Lifetime { token: token.child_token(), tasks },
            started: OnceCell::new(),
            label: text::one_line(&settings.server.name, 60),
            name_part: part,
            settings,
            shared,
            state: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            logging_in: tokio::sync::Mutex::default(),
            settled: watch::Sender::new(false),
        }
    }

    /// Starts the server at the first call; waits until it is settled or its startup timeout passes.
    pub(crate) async fn ready(self: &Arc<Self>) {
        let start = || async {
            self.lifetime.tasks.spawn(Arc::clone(self).start().in_current_span());
            Instant::now()
        };
        let started = *self.started.get_or_init(start).await;
        self.settled(started + self.settings.startup_timeout).await;
    }

    /// Loads the cached tools, then connects.
    async fn start(self: Arc<Self>) {
        self.load_cached().await;
        if self.listed().is_some() {
            self.settled.send_replace(true);
        }
        drop(self.connection().await);
        self.settled.send_replace(true);
    }

    /// Returns true if the tools are listed or the first attempt has failed.
    pub(crate) fn is_settled(&self) -> bool {
        *self.settled.borrow()
    }

    /// Waits until the server is settled or `until` passes; the first time out is reported to the user.
    async fn settled(&self, until: Instant) {
        let mut settled = self.settled.subscribe();
        if timeout_at(until, settled.wait_for(|settled| *settled)).await.is_err() {
            let is_news = !std::mem::replace(&mut self.state().is_late, true);
            if is_news {
                let waited = self.settings.startup_timeout.as_secs_f64();
                self.push_notice(NoticeLevel::Warning, &format!(
                    "is not ready after {waited} s; the agent starts without its tools and gets them later"
                ));
            }
        }
    }

    pub(crate) fn listed(&self) -> Option<Arc<ToolListing>> {
        self.state().listed.clone()
    }

    pub(crate) fn health(&self) -> Health {
        let state = self.state();
        match (&state.connection, &state.last_error) {
            (Some(connection), _) if connection.is_open() => Health::Connected,
            (_, Some(why)) => Health::Failed(why.clone()),
            (_, None) => Health::Unused,
        }
    }

    /// Calls a tool, if it is unchanged since it was offered.
    #[tracing::instrument(
        level = "debug",
        name = "mcp_call",
        skip_all,
        fields(server = self.label, tool = tool.name)
    )]
    pub(crate) async fn call(
        self: &Arc<Self>,
        tool: &ListedTool,
        arguments: &JsonObject,
        ctx: &ToolContext,
    ) -> Result<CallToolResult, String> {
        let send = |connection: Arc<ServerConnection>| async move {
            self.check_unchanged(tool).map_err(CallError::Changed)?;
            connection.call(&tool.name, arguments, &self.settings, ctx).await
        };
        self.request(Requester::of_call(ctx), send).await
    }

    /// Gets a prompt.
    pub(crate) async fn get_prompt(
        self: &Arc<Self>,
        name: &str,
        arguments: &JsonObject,
        requester: Requester<'_>,
    ) -> Result<GetPromptResult, String> {
        let send = |connection: Arc<ServerConnection>| async move {
            connection.get_prompt(name, arguments, &self.settings, requester).await
        };
        self.request(requester, send).await
    }

    /// Reads a resource.
    pub(crate) async fn read_resource(
        self: &Arc<Self>,
        uri: &str,
        requester: Requester<'_>,
    ) -> Result<ReadResourceResult, String> {
        let send = |connection: Arc<ServerConnection>| async move {
            connection.read_resource(uri, &self.settings, requester).await
        };
        self.request(requester, send).await
    }

    /// Lists the resources, and the templates of their URIs.
    pub(crate) async fn list_resources(
        self: &Arc<Self>,
        requester: Requester<'_>,
    ) -> Result<(Vec<Resource>, Vec<ResourceTemplate>), String> {
        let send = |connection: Arc<ServerConnection>| async move {
            connection.list_resources(&self.settings, requester).await
        };
        self.request(requester, send).await
    }

    /// Sends a request on an open connection. One that was certainly not sent is sent once more.
    async fn request<T, F: Future<Output = Result<T, CallError>>>(
        self: &Arc<Self>,
        requester: Requester<'_>,
        send: impl Fn(Arc<ServerConnection>) -> F,
    ) -> Result<T, String> {
        let (mut is_second, mut has_logged_in) = (false, false);
        loop {
            let connecting = requester.cancel.run_until_cancelled(self.connection()).await;
            let connection = match connecting {
                None => return Err(CallError::Cancelled.to_string()),
                Some(Err(ConnectError::LoginRequired { challenge, .. })) if !has_logged_in => {
                    has_logged_in = true;
                    self.log_in_for(&challenge, requester).await?;
                    continue;
                }
                Some(Err(error)) => {
                    return Err(format!("the MCP server {} is unavailable: {error}", self.label));
                }
                Some(Ok(connection)) => connection,
            };
            let sent_at = Instant::now();
            let answer = send(Arc::clone(&connection)).await;
            let (is_ok, duration_ms) = (answer.is_ok(), sent_at.elapsed().as_millis());
            tracing::debug!(is_ok, duration_ms, "server answered");
            match answer {
                Err(CallError::Unsent(_)) if !is_second => {
                    tracing::debug!("request not sent; connecting again");
                    is_second = true;
                    self.drop_connection(&connection);
                }
                // At most one login per request, so that a server that is never content cannot ask for ever.
                Err(CallError::LoginRequired(challenge)) if !has_logged_in => {
                    has_logged_in = true;
                    self.log_in_for(&challenge, requester).await?;
                }
                Err(CallError::Changed(why)) => return Err(why),
                Err(error) => return Err(format!("MCP server {}: {error}", self.label)),
                Ok(result) => {
                    self.state().failures = 0;
                    return Ok(result);
                }
            }
        }
    }

    /// Lets the user log in during a call. The error is the result of the call.
    async fn log_in_for(
        &self,
        challenge: &LoginChallenge,
        requester: Requester<'_>,
    ) -> Result<(), String> {
        let failed = |why: &str| {
            let what = if challenge.needs_more_scopes {
                "needs a login with more permissions"
            } else {
                "needs a login"
            };
            format!("the MCP server {} {what}: {why}", self.label)
        };
        let browser = self.shared.context.browser.as_ref();
        let can_ask = |ctx: &&ToolContext| ctx.agent.is_attended && ctx.agent.questions.is_some();
        let ctx = requester.ctx.filter(can_ask);
        let login = self.settings.login(&self.shared.context, &self.lifetime.tasks);
        let (Some(browser), Some(login), Some(ctx)) = (browser, login, ctx) else {
            return Err(failed(&self.login_hint(challenge)));
        };
        let logging_in = async {
            // One login at a time: parallel calls wait, and then use the login of the first.
            let before = login.state().await?;
            let _guard = self.logging_in.lock().await;
            if login.state().await? != before {
                return Ok(());
            }
            let dialog = QuestionDialog(ctx);
            let cancel = &ctx.cancellation;
            let done =
                log_in(&login, &self.label, challenge, false, Some(browser), &dialog, cancel);
            // Boxed: it is large, and part of every request.
            Box::pin(done).await.map(drop).map_err(|error| error.to_string())
        };
        let logged_in = requester.cancel.run_until_cancelled(logging_in).await;
        let logged_in = logged_in.unwrap_or_else(|| Err(CallError::Cancelled.to_string()));
        logged_in.map_err(|why| failed(&why))?;
        // The server may be connected at once.
        let mut state = self.state();
        (state.failures, state.backoff_until, state.last_error) = (0, None, None);
        Ok(())
    }

    /// Returns the command by which the user logs in.
    fn login_hint(&self, challenge: &LoginChallenge) -> String {
        let Some(logins) = &self.shared.context.logins else {
            return "logins cannot be used here".to_owned();
        };
        let url = match &self.settings.server.transport {
            McpTransport::Http { url, .. } => Url::parse(url).ok(),
            McpTransport::Stdio { .. } | McpTransport::Client(_) => None,
        };
        let scopes = url.map(|url| challenge.scopes(&url)).unwrap_or_default();
        let scopes = if challenge.needs_more_scopes { scopes } else { Vec::new() };
        logins.hint(&self.settings.server.name, &scopes)
    }

    fn check_unchanged(&self, tool: &ListedTool) -> Result<(), String> {
        let listed = self.listed();
        match listed.as_ref().and_then(|listed| listed.find(&tool.name)) {
            Some(now) if now == tool => Ok(()),
            Some(_) => Err(format!(
                "the MCP server {} changed this tool after it was offered, so it was not called; look at it again",
                self.label
            )),
            None => Err(format!("the MCP server {} does not have this tool any more", self.label)),
        }
    }

    /// Returns the open connection, or makes one. The attempt continues if the caller is cancelled.
    async fn connection(self: &Arc<Self>) -> Result<Arc<ServerConnection>, ConnectError> {
        if let Some(open) = self.open_connection() {
            return Ok(open);
        }
        let server = Arc::clone(self);
        let connecting = async move { server.connect().await };
        let attempt = self.lifetime.tasks.spawn(connecting.in_current_span());
        attempt.await.unwrap_or(Err(ConnectError::Closed))
    }

    #[tracing::instrument(level = "debug", name = "mcp_connect", skip_all, fields(server = self.label))]
    async fn connect(self: Arc<Self>) -> Result<Arc<ServerConnection>, ConnectError> {
        let _guard = self.connecting.lock().await;
        if let Some(open) = self.open_connection() {
            return Ok(open);
        }
        if self.lifetime.token.is_cancelled() {
            return Err(self.ending());
        }
        if let McpTransport::Client(server) = &self.settings.server.transport
            && server.link().closed().now_or_never().is_some()
        {
            return Err(ConnectError::Gone);
        }
        self.check_pause()?;
        let limit = self.settings.connect_limit();
        let started = Instant::now();
        tracing::debug!("connecting");
        match ServerConnection::open(&self.settings, &self.shared.context, &self.lifetime, limit)
            .await
        {
            Ok((connection, listed)) => {
                let connection = Arc::new(connection);
                let (tools, duration_ms) = (listed.tools.len(), started.elapsed().as_millis());
                tracing::debug!(tools, duration_ms, "connected");
                self.on_connected(&connection, listed).await;
                Ok(connection)
            }
            Err(ConnectError::Closed) => Err(self.ending()),
            Err(error) => {
                let duration_ms = started.elapsed().as_millis();
                tracing::debug!(%error, duration_ms, "no connection");
                self.on_failed(&error);
                Err(error)
            }
        }
    }

    /// Returns the error for a cancelled lifetime: the end of the session, or of this server alone.
    fn ending(&self) -> ConnectError {
        let is_session_end = self.shared.lifetime.token.is_cancelled();
        if is_session_end { ConnectError::Closed } else { ConnectError::Retired }
    }

    fn open_connection(&self) -> Option<Arc<ServerConnection>> {
        self.state().connection.clone().filter(|connection| connection.is_open())
    }

    /// Fails during the pause after a failure.
    fn check_pause(&self) -> Result<(), ConnectError> {
        let state = self.state();
        let wait = state.backoff_until.map(|until| until.saturating_duration_since(Instant::now()));
        match wait.filter(|wait| !wait.is_zero()) {
            Some(wait) => {
                let why = state.last_error.clone();
                let why = why.expect("invariant: only a failure begins a pause");
                Err(ConnectError::BackingOff { why, wait })
            }
            None => Ok(()),
        }
    }

    async fn on_connected(
        self: &Arc<Self>,
        connection: &Arc<ServerConnection>,
        listed: ToolListing,
    ) {
        {
            let mut state = self.state();
            state.connection = Some(Arc::clone(connection));
            (state.last_error, state.backoff_until) = (None, None);
        }
        self.take(listed).await;
        let (server, connection) = (Arc::clone(self), Arc::clone(connection));
        self.lifetime.tasks.spawn(async move { server.watch(connection).await });
    }

    fn on_failed(&self, error: &ConnectError) {
        let why = error.to_string();
        let is_news = if matches!(error, ConnectError::LoginRequired { .. }) {
            // No pause: the user may log in at any moment.
            self.state().last_error.replace(why.clone()).as_ref() != Some(&why)
        } else {
            self.start_backoff(&why)
        };
        if is_news {
            self.push_notice(NoticeLevel::Warning, &format!("is unavailable: {error}"));
        }
    }

    /// Starts the pause after a failure. Returns true if the reason differs from the last one.
    fn start_backoff(&self, why: &str) -> bool {
        let mut state = self.state();
        let factor = 1_u32 << state.failures.min(10);
        state.failures = state.failures.saturating_add(1);
        state.backoff_until =
            Some(Instant::now() + FIRST_BACKOFF.saturating_mul(factor).min(MAX_BACKOFF));
        state.last_error.replace(why.to_owned()).as_deref() != Some(why)
    }

    fn drop_connection(&self, connection: &Arc<ServerConnection>) {
        let mut state = self.state();
        if state.connection.as_ref().is_some_and(|own| Arc::ptr_eq(own, connection)) {
            state.connection = None;
        }
    }

    /// Stores a new listing, in memory and in the cache, and reports the changes.
    async fn take(&self, listed: ToolListing) {
        let listed = Arc::new(listed);
        let (before, was_late) = {
            let mut state = self.state();
            let before = state.listed.replace(Arc::clone(&listed));
            (before, std::mem::take(&mut state.is_late))
        };
        if before.as_ref() == Some(&listed) {
            return;
        }
        self.bump();
        let omissions = listed.omissions();
        let count = listed.tools.len();
        match before.map(|before| listed.difference(&before)) {
            Some(Some(difference)) => {
                self.push_notice(
                    NoticeLevel::Info,
                    &format!("changed its tools: {difference}{omissions}"),
                );
            }
            None if was_late => {
                self.push_notice(
                    NoticeLevel::Info,
                    &format!("is available now, with {count} tools{omissions}"),
                );
            }
            None if !omissions.is_empty() => {
                self.push_notice(NoticeLevel::Warning, &format!("has {count} tools{omissions}"));
            }
            Some(None) | None => {}
        }
        self.store(listed).await;
    }

    /// Lists the tools again after each change, until the connection ends.
    async fn watch(&self, connection: Arc<ServerConnection>) {
        let mut listening = pin!(connection.listen());
        loop {
            let why = tokio::select! {
                biased;
                () = self.lifetime.token.cancelled() => return,
                why = connection.closed() => Some(why),
                () = connection.changed() => None,
                () = &mut listening => None,
            };
            if let Some(why) = why {
                return self.on_disconnected(&connection, why);
            }
            if let Ok(listed) = connection.list(self.settings.tools.as_deref()).await {
                self.take(listed).await;
            }
            // Limits the requests to a server that reports changes all the time.
            let pause = sleep(BETWEEN_LISTS);
            if self.lifetime.token.run_until_cancelled(pause).await.is_none() {
                return;
            }
        }
    }

    fn on_disconnected(&self, connection: &Arc<ServerConnection>, why: String) {
        if self.lifetime.token.is_cancelled() {
            return;
        }
        self.drop_connection(connection);
        let text = match &self.settings.server.transport {
            McpTransport::Client(_) => format!("has ended: {why}"),
            McpTransport::Stdio { .. } | McpTransport::Http { .. } => {
                format!("has ended: {why}; the next call of one of its tools starts it again")
            }
        };
        // After the first loss the server may start again at once.
        let mut state = self.state();
        state.last_error = Some(why);
        let failures = state.failures;
        state.failures = failures.saturating_add(1);
        if failures > 0 {
            let factor = 1_u32 << failures.min(10);
            let rest = FIRST_BACKOFF.saturating_mul(factor).min(MAX_BACKOFF);
            state.backoff_until = Some(Instant::now() + rest);
        }
        drop(state);
        self.push_notice(NoticeLevel::Warning, &text);
    }

    /// Closes the connection in an orderly way.
    pub(crate) async fn close(&self) {
        let connection = self.state().connection.take();
        if let Some(connection) = connection {
            connection.close().await;
        }
    }

    /// Ends the server before the session ends.
    pub(crate) async fn retire(&self) {
        self.lifetime.token.cancel();
        let connection = self.state().connection.take();
        if let Some(connection) = connection {
            connection.fail(ConnectError::Retired.to_string());
            connection.close().await;
        }
    }

    /// Loads the cached listing, if nothing was listed yet.
    pub(crate) async fn load_cached(&self) {
        if self.listed().is_some() {
            return;
        }
        let Some(listed) = self.load().await else { return };
        let mut state = self.state();
        if state.listed.is_none() {
            state.listed = Some(Arc::new(listed));
            drop(state);
            self.bump();
        }
    }

    async fn load(&self) -> Option<ToolListing> {
        let (cache, server) = (self.shared.cache.clone()?, self.settings.server.clone());
        let wanted = self.settings.tools.clone();
        let loaded = self.lifetime.tasks.spawn_blocking(move || cache.load(&server));
        let mut listed = loaded.await.ok().flatten()?;
        if let Some(wanted) = wanted {
            listed.tools.retain(|tool| wanted.contains(&tool.name));
        }
        Some(listed)
    }

    async fn store(&self, listed: Arc<ToolListing>) {
        let Some(cache) = self.shared.cache.clone() else { return };
        let server = self.settings.server.clone();
        let store = move || cache.store(&server, &listed);
        if let Ok(Err(error)) = self.lifetime.tasks.spawn_blocking(store).await {
            tracing::debug!(%error, "what a server listed could not be kept");
        }
    }

    fn bump(&self) {
        self.shared.revision.send_modify(|revision| *revision += 1);
    }

    fn push_notice(&self, level: NoticeLevel, text: &str) {
        self.shared.push_notice(level, format!("the MCP server {} {text}", self.label));
    }

    fn state(&self) -> MutexGuard<'_, McpServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
