//! A connection to a server: handshake, tool listing, calls and shutdown.
//!
//! [`ServerConnection`] is built on the peer of the `rmcp` library, over one of three transports (the streams of a
//! process, HTTP, a link of the client). Each is wrapped in a [`BoundedTransport`], which shares a [`TransportState`]
//! with the connection: the close token, the reason of the close, the signal of changed tools, and the calls in flight.
//!
//! The waits for answers also end when the close token is cancelled. A call that certainly did not reach the server
//! fails with [`CallError::Unsent`], so it can be sent again; if the connection fails later, the error is
//! [`CallError::Lost`], and the call is not retried.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crow_core::{
    capability::{HttpError, OutputTail, PipedSpec, ProcessEnd},
    mcp::McpTransport,
    tool::ToolContext,
};
use http::{HeaderName, HeaderValue};
use rmcp::{
    RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ElicitRequestParams,
        ElicitationAction, ErrorCode, GetExtensions as _, GetMeta as _, InputRequiredResult,
        JsonObject, ListToolsRequest, PaginatedRequestParams, ProtocolVersion, ServerResult,
        SubscriptionFilter, SubscriptionsListenRequest, SubscriptionsListenRequestParams,
    },
    service::{
        ClientInitializeError, ClientLifecycleMode, Peer, PeerRequestOptions, RequestHandle,
        RunningService, ServiceError, serve_client_with_lifecycle_and_ct,
    },
    transport::{Transport, streamable_http_client::StreamableHttpError},
};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{
    client::Client,
    elicitation::confirm_page_done,
    failure::{CallError, ConnectError, stderr_excerpt},
    listed::ToolListing,
    oauth::LoginChallenge,
    page::ToolPage,
    settings::{ConnectionContext, McpSettings},
    text,
    transport::{
        self, BoundedTransport, CallSlot, LINK_FAILED, LineTransport, LinkTransport, TransportState,
    },
};

/// Number of bytes of standard error that are retained.
const ERRORS: usize = 8 * 1024;
/// Maximum number of pages of a tool list.
const MOST_PAGES: usize = 50;
/// Maximum number of tools that are read from all pages, invalid ones included.
const MOST_LISTED: usize = 2000;
/// Delay before a subscription to changes that the server ended is renewed.
const BETWEEN_LISTENING: Duration = Duration::from_secs(5);
/// Timeout of a request for a list, once connected.
const LIST: Duration = Duration::from_secs(30);
/// Timeout of an orderly shutdown, before the process is killed.
const GOODBYE: Duration = Duration::from_millis(300);
/// Timeout of sending a cancellation.
const CANCEL: Duration = Duration::from_secs(2);
/// The time to wait for the exit status of a program that closed its output: it explains more than the closed stream.
const ENDING: Duration = Duration::from_millis(1500);
/// Protocol version for stateless servers, where no request depends on an earlier one.
const WITHOUT_MEMORY: ProtocolVersion = ProtocolVersion::V_2026_07_28;
/// Maximum number of times that a server may ask for input during a call.
const MOST_ROUNDS: u32 = 10;
/// Delay before a call is repeated that the server was not ready for.
const BETWEEN_ROUNDS: Duration = Duration::from_secs(1);
/// Code of the error by which a server wants pages visited before a call.
const PAGES_REQUIRED: ErrorCode = ErrorCode(-32042);
/// Maximum number of pages that a server may want visited before a call.
const MOST_PAGES_OPENED: usize = 5;
/// Maximum length in bytes of a server's text in an error.
const LONGEST: usize = 1000;

/// A connection to a server. Dropping it ends the server, if it is a process.
pub(crate) struct ServerConnection {
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, Client>>>,
    state: ConnectionState,
    tasks: TaskTracker,
    _ends: DropGuard,
}

/// The part of a connection that exists before the handshake is complete.
#[derive(Debug, Clone)]
struct ConnectionState {
    transport_state: Arc<TransportState>,
    errors: OutputTail,
    /// Description of the exit, set when the process has ended; always none for other transports.
    ended: Arc<std::sync::Mutex<Option<String>>>,
    /// Cancelled when the process has ended; none for other transports.
    gone: Option<CancellationToken>,
    /// Display name of the server.
    name: String,
    /// Command by which a user logs in; none where logins are not used.
    login_command: Option<String>,
    /// Answers the requests of the server; set when the connection begins.
    client: Option<Client>,
}

/// The answer to a call.
enum CallAnswer {
    Result(CallToolResult),
    /// The server needs input, and the call is to be repeated with it.
    InputRequired(InputRequiredResult),
    /// The user is to visit these pages, and the call is to be repeated.
    PagesRequired(Vec<ElicitRequestParams>),
}

/// Cancellation token of a connection, and the tracker of its tasks.
#[derive(Debug, Clone)]
pub(crate) struct Lifetime {
    pub(crate) token: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl ServerConnection {
    /// Connects and lists the tools. Fails with [`ConnectError::TimedOut`] after `limit`.
    pub(crate) async fn open(
        settings: &McpSettings,
        outside: &ConnectionContext,
        lifetime: &Lifetime,
        limit: Duration,
    ) -> Result<(Self, ToolListing), ConnectError> {
        let stop = lifetime.token.child_token();
        let ends = stop.clone().drop_guard();
        let mut link = ConnectionState {
            transport_state: Arc::default(),
            errors: OutputTail::new(ERRORS),
            ended: Arc::default(),
            gone: None,
            name: text::one_line(&settings.server.name, 60),
            login_command: None,
            client: None,
        };
        let connect = async {
            let service = connect(settings, outside, lifetime, &stop, &mut link).await?;
            let connection = Self {
                peer: service.peer().clone(),
                service: Mutex::new(Some(service)),
                state: link.clone(),
                tasks: lifetime.tasks.clone(),
                _ends: ends,
            };
            let listed = connection.list(settings.tools.as_deref()).await;
            match listed {
                Ok(listed) => Ok((connection, listed)),
                Err(why) => Err(connection.state.refused_error(&why).await),
            }
        };
        // An attempt that is dropped here drops `ends`, which stops the process.
        let opened = tokio::select! {
            biased;
            () = lifetime.token.cancelled() => return Err(ConnectError::Closed),
            opened = timeout(limit, connect) => opened,
        };
        opened.unwrap_or_else(|_| {
            Err(ConnectError::TimedOut { limit, errors: link.errors.to_text() })
        })
    }

    /// Returns true if calls can be sent.
    pub(crate) fn is_open(&self) -> bool {
        !self.state.transport_state.closed.is_cancelled() && !self.peer.is_transport_closed()
    }

    /// Waits until the connection is closed and returns the reason.
    pub(crate) async fn closed(&self) -> String {
        self.state.transport_state.closed.cancelled().await;
        self.state.close_message().await
    }

    /// Waits until the server reports that its tools changed.
    pub(crate) async fn changed(&self) {
        self.state.transport_state.changed.notified().await;
    }

    /// Subscribes to tool changes of a stateless server, if it supports that; other servers report them unasked. Never
    /// returns.
    pub(crate) async fn listen(&self) {
        let info = self.peer.peer_info();
        let has_changes = info.is_some_and(|info| {
            let tools = info.capabilities.tools.as_ref();
            info.protocol_version == WITHOUT_MEMORY
                && tools.is_some_and(|tools| tools.list_changed == Some(true))
        });
        while has_changes && self.is_open() {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            let params = SubscriptionsListenRequestParams::new(filter);
            let request = SubscriptionsListenRequest::new(params);
            // The transport handles the messages that arrive meanwhile.
            let subscription =
                self.peer.send_request(ClientRequest::SubscriptionsListenRequest(request));
            if subscription.await.is_err() {
                break;
            }
            sleep(BETWEEN_LISTENING).await;
            // The tools may have changed while there was no subscription.
            self.state.transport_state.changed.notify_one();
        }
        std::future::pending::<()>().await;
    }

    /// Lists the tools named in `wanted`, or all if absent. Empty if the server does not declare the capability.
    pub(crate) async fn list(&self, wanted: Option<&[String]>) -> Result<ToolListing, String> {
        let has_tools = self.peer.peer_info().is_none_or(|info| info.capabilities.tools.is_some());
        if !has_tools {
            return Ok(ToolListing::default());
        }
        let pages = async {
            let (mut tools, mut invalid, mut cursor) = (Vec::new(), Vec::new(), None);
            for _ in 0..MOST_PAGES {
                let params = PaginatedRequestParams::default().with_cursor(cursor);
                let request = ListToolsRequest::with_param(params);
                // Bypasses the list that the library caches, which may be stale.
                let answer = self.peer.send_request(ClientRequest::ListToolsRequest(request)).await;
                let answer = answer.map_err(|error| list_error(&error))?;
                let Some(page) = ToolPage::from_result(answer) else {
                    return Err("its answer is not a valid tool list".to_owned());
                };
                let room = MOST_LISTED.saturating_sub(tools.len() + invalid.len());
                tools.extend(page.tools.into_iter().take(room));
                let room = MOST_LISTED.saturating_sub(tools.len() + invalid.len());
                invalid.extend(page.invalid.into_iter().take(room));
                cursor = page.next_cursor;
                if cursor.is_none() || tools.len() + invalid.len() == MOST_LISTED {
                    break;
                }
            }
            Ok(ToolListing::new(tools, &invalid, wanted))
        };
        tokio::select! {
            biased;
            listed = timeout(LIST, pages) => {
                listed.unwrap_or_else(|_| Err("it failed to list its tools".to_owned()))
            }
            () = self.state.transport_state.closed.cancelled() => Err(self.state.close_message().await),
        }
    }

    /// Calls a tool. Returns at once on a cancellation or timeout; the server is notified in the background.
    ///
    /// A server may ask for input instead of a result; the call is repeated with the answers of the user.
    pub(crate) async fn call(
        &self,
        name: &str,
        arguments: JsonObject,
        settings: &McpSettings,
        ctx: &ToolContext,
    ) -> Result<CallToolResult, CallError> {
        let mut params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        for _ in 0..MOST_ROUNDS {
            let call = self.state.transport_state.begin_call(ctx.clone());
            let answer = self.request(&params, call.slot(), settings, ctx).await?;
            let input = match answer {
                CallAnswer::Result(result) => return Ok(result),
                CallAnswer::InputRequired(input) => input,
                CallAnswer::PagesRequired(pages) => {
                    self.open_pages(&pages, call.slot()).await?;
                    continue;
                }
            };
            let client = self.state.client.as_ref().ok_or(CallError::InputRequired)?;
            let requests = input.input_requests.unwrap_or_default();
            if requests.is_empty() && input.request_state.is_none() {
                return Err(CallError::UnexpectedAnswer);
            }
            let is_only_state = requests.is_empty();
            let responses =
                client.respond(requests, call.slot()).await.ok_or(CallError::InputRequired)?;
            if ctx.should_abort() {
                return Err(CallError::Cancelled);
            }
            if is_only_state {
                // The server is not ready yet.
                ctx.cancellation.run_until_cancelled(sleep(BETWEEN_ROUNDS)).await;
            }
            params.input_responses = (!responses.is_empty()).then_some(responses);
            params.request_state = input.request_state;
        }
        Err(CallError::TooManyRounds)
    }

    /// Sends a call once.
    async fn request(
        &self,
        params: &CallToolRequestParams,
        slot: &CallSlot,
        settings: &McpSettings,
        ctx: &ToolContext,
    ) -> Result<CallAnswer, CallError> {
        let cancel = &ctx.cancellation;
        let mut request = CallToolRequest::new(params.clone());
        request.extensions_mut().insert(slot.clone());
        let mut request = ClientRequest::CallToolRequest(request);
        if let Some(span) = ctx.trace_context() {
            request.get_meta_mut().insert("traceparent".to_owned(), span.to_string().into());
        }
        let options = PeerRequestOptions::no_options();
        let send = self.peer.send_cancellable_request(request, options);
        let handle = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(CallError::Cancelled),
            handle = timeout(settings.tool_timeout, send) => match handle {
                Ok(Ok(handle)) => handle,
                Ok(Err(_)) => return Err(CallError::Unsent(self.state.close_message().await)),
                Err(_) => return Err(CallError::Unsent("it does not read its input".to_owned())),
            },
        };
        self.answer(handle, slot, settings, cancel).await
    }

    /// Lets the user open the pages that a server wants visited before it runs a call. Fails if the user declines.
    async fn open_pages(
        &self,
        pages: &[ElicitRequestParams],
        slot: &CallSlot,
    ) -> Result<(), CallError> {
        let client = self.state.client.as_ref().ok_or(CallError::InputRequired)?;
        for page in pages {
            if client.elicit(page, Some(slot)).await.action != ElicitationAction::Accept {
                return Err(CallError::Declined);
            }
        }
        let is_done = slot.ask(confirm_page_done(&self.state.name, slot.context())).await;
        if is_done { Ok(()) } else { Err(CallError::Declined) }
    }

    /// Waits for the answer, a cancellation, a timeout or the close. Progress restarts the timeout of silence, not the
    /// total one.
    async fn answer(
        &self,
        mut handle: RequestHandle<RoleClient>,
        slot: &CallSlot,
        settings: &McpSettings,
        cancel: &CancellationToken,
    ) -> Result<CallAnswer, CallError> {
        let mut deadline = Instant::now() + settings.call_limit();
        let mut silent_until = Instant::now() + settings.tool_timeout;
        let late = |text: String| Err(CallError::TimedOut(text));
        let outcome = loop {
            tokio::select! {
                biased;
                answer = &mut handle.rx => {
                    return match answer {
                        Ok(answer) => self.to_call_answer(answer, slot).await,
                        Err(_) => Err(self.lost(slot).await),
                    };
                }
                () = cancel.cancelled() => break Err(CallError::Cancelled),
                () = slot.wait_for_progress() => silent_until = Instant::now() + settings.tool_timeout,
                () = sleep_until(silent_until.min(deadline)) => {
                    if slot.is_asking() {
                        // The user takes the time, not the server.
                        silent_until = Instant::now() + settings.tool_timeout;
                        deadline = Instant::now() + settings.call_limit();
                        continue;
                    }
                    break late(if silent_until < deadline {
                        let limit = settings.tool_timeout.as_secs_f64();
                        format!("the server sent nothing for {limit} s, so the call was cancelled")
                    } else {
                        let limit = settings.call_limit().as_secs_f64();
                        format!("the call took more than {limit} s and was cancelled")
                    });
                }
                // Polled last: messages that arrived before the close were handled first.
                () = self.state.transport_state.closed.cancelled() => return Err(self.lost(slot).await),
            }
        };
        let reason = match &outcome {
            Err(CallError::TimedOut(_)) => "timeout",
            Ok(_) | Err(_) => "the user cancelled it",
        };
        // Sent in the background: the server may not be reading.
        self.tasks.spawn(async move {
            drop(timeout(CANCEL, handle.cancel(Some(reason.to_owned()))).await);
        });
        outcome
    }

    async fn to_call_answer(
        &self,
        answer: Result<ServerResult, ServiceError>,
        slot: &CallSlot,
    ) -> Result<CallAnswer, CallError> {
        match answer {
            Ok(ServerResult::CallToolResult(result)) => Ok(CallAnswer::Result(result)),
            Ok(ServerResult::InputRequiredResult(input)) => Ok(CallAnswer::InputRequired(input)),
            Err(ServiceError::McpError(error)) if error.code == PAGES_REQUIRED => {
                let pages = error.data.as_ref().and_then(|data| data.get("elicitations"));
                let pages = pages.cloned().and_then(|pages| serde_json::from_value(pages).ok());
                let pages: Vec<ElicitRequestParams> = pages.unwrap_or_default();
                if pages.is_empty() || pages.len() > MOST_PAGES_OPENED {
                    return Err(CallError::Refused(text::one_line(&error.message, LONGEST)));
                }
                Ok(CallAnswer::PagesRequired(pages))
            }
            Ok(_) | Err(ServiceError::UnexpectedResponse) => Err(CallError::UnexpectedAnswer),
            Err(ServiceError::McpError(error)) if error.code == LINK_FAILED => {
                Err(CallError::LinkFailed(text::one_line(&error.message, LONGEST)))
            }
            Err(ServiceError::McpError(error)) => {
                Err(CallError::Refused(text::one_line(&error.message, LONGEST)))
            }
            Err(ServiceError::TransportSend(error)) => {
                let why = text::one_line(&error.error.to_string(), LONGEST);
                let http = error.error.downcast_ref::<StreamableHttpError<HttpError>>();
                if let Some(challenge) = http.and_then(LoginChallenge::of) {
                    return Err(CallError::LoginRequired(challenge));
                }
                // If the request was never sent, the connection is closed, so that the caller retries on a new one.
                let nothing_sent = matches!(
                    http,
                    Some(StreamableHttpError::Client(
                        HttpError::Connect(_) | HttpError::Request(_) | HttpError::NotPublic(_)
                    ))
                );
                if nothing_sent {
                    self.state.transport_state.fail(why.clone());
                    self.state.transport_state.closed.cancel();
                    return Err(CallError::Unsent(why));
                }
                Err(CallError::Lost(why))
            }
            Err(_) => Err(self.lost(slot).await),
        }
    }

    /// Returns the error of a call whose connection closed: `Lost` if the server may have seen the call, otherwise
    /// `Unsent`.
    async fn lost(&self, slot: &CallSlot) -> CallError {
        let why = self.state.close_message().await;
        let why = format!("{why}{}", stderr_excerpt(&self.state.errors.to_text()));
        if slot.was_sent() { CallError::Lost(why) } else { CallError::Unsent(why) }
    }

    /// Records the reason for the end of the connection.
    pub(crate) fn fail(&self, why: String) {
        self.state.transport_state.fail(why);
    }

    /// Ends the session in an orderly way within `GOODBYE`. The process ends when the connection is dropped.
    pub(crate) async fn close(&self) {
        let service = self.service.lock().await.take();
        if let Some(mut service) = service {
            drop(timeout(GOODBYE, service.close()).await);
        }
    }
}

impl ConnectionState {
    /// Returns the reason for the close, at most `LONGEST` bytes.
    async fn close_message(&self) -> String {
        let why =
            self.close_reason().await.unwrap_or_else(|| "it closed the connection".to_owned());
        crow_text::shorten(&why, LONGEST)
    }

    /// Returns the failure that this side recorded, otherwise how the process ended; waits up to `ENDING` for that.
    async fn close_reason(&self) -> Option<String> {
        let failure = self.transport_state.close_reason();
        if failure.is_some() {
            return failure;
        }
        timeout(ENDING, self.gone.as_ref()?.cancelled()).await.ok()?;
        self.ended.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    async fn refused_error(&self, why: &str) -> ConnectError {
        if let (Some(challenge), Some(command)) =
            (self.transport_state.take_challenge(), &self.login_command)
        {
            let hint = format!("{command} {}", self.name);
            return ConnectError::LoginRequired { challenge, hint };
        }
        let why = self.close_reason().await.unwrap_or_else(|| why.to_owned());
        ConnectError::Refused { why, errors: self.errors.to_text() }
    }
}

/// Connects with the handshake of the protocol, or without one if the server has none: since version 2026-07-28 it is
/// asked for its capabilities, and each request identifies the client.
async fn connect(
    settings: &McpSettings,
    outside: &ConnectionContext,
    lifetime: &Lifetime,
    stop: &CancellationToken,
    link: &mut ConnectionState,
) -> Result<RunningService<RoleClient, Client>, ConnectError> {
    let is_of_client = matches!(settings.server.transport, McpTransport::Client(_));
    let wanted = settings.known_protocol_version();
    let has_handshake =
        !is_of_client && wanted.as_ref().is_none_or(ProtocolVersion::has_initialize);
    if has_handshake {
        let client = new_client(outside, link);
        let client = match &wanted {
            Some(version) => client.with_protocol_version(version.clone()),
            None => client,
        };
        let mode = ClientLifecycleMode::Initialize;
        match serve(client, mode, settings, outside, lifetime, stop, link).await {
            // The server answered, but not with a handshake.
            Err(ServeError::Initialize(ClientInitializeError::JsonRpcError(_)))
                if wanted.is_none() =>
            {
                link.transport_state = Arc::default();
            }
            served => return to_connect_result(served, link).await,
        }
    }
    let client = new_client(outside, link).stateless();
    let mode = ClientLifecycleMode::Discover { preferred_versions: vec![WITHOUT_MEMORY] };
    let served = serve(client, mode, settings, outside, lifetime, stop, link).await;
    to_connect_result(served, link).await
}

fn new_client(outside: &ConnectionContext, link: &ConnectionState) -> Client {
    let state = Arc::clone(&link.transport_state);
    Client::new(&link.name, &outside.roots, outside.browser.clone(), state)
}

/// Error of beginning a connection.
enum ServeError {
    Connect(ConnectError),
    Initialize(ClientInitializeError),
}

async fn to_connect_result(
    served: Result<RunningService<RoleClient, Client>, ServeError>,
    link: &ConnectionState,
) -> Result<RunningService<RoleClient, Client>, ConnectError> {
    match served {
        Ok(service) => Ok(service),
        Err(ServeError::Connect(error)) => Err(error),
        Err(ServeError::Initialize(error)) => Err(initialize_error(&error, link).await),
    }
}

/// Opens the transport and begins the protocol on it.
async fn serve(
    client: Client,
    mode: ClientLifecycleMode,
    settings: &McpSettings,
    outside: &ConnectionContext,
    lifetime: &Lifetime,
    stop: &CancellationToken,
    link: &mut ConnectionState,
) -> Result<RunningService<RoleClient, Client>, ServeError> {
    link.client = Some(client.clone());
    match &settings.server.transport {
        McpTransport::Stdio { command, args, env, cwd } => {
            let root = outside.roots.first().cloned().unwrap_or_else(|| "/".into());
            let cwd = cwd.as_ref().map_or_else(|| root.clone(), |cwd| root.join(cwd));
            let argv = std::iter::once(command).chain(args).cloned().collect();
            let spec = PipedSpec { argv, cwd, env: env.clone(), stderr_tail: link.errors.clone() };
            let process = outside.processes.start(spec, stop.clone()).await;
            let process = process.map_err(|error| ServeError::Connect(error.into()))?;
            let (end, ended, gone) =
                (process.end, Arc::clone(&link.ended), CancellationToken::new());
            link.gone = Some(gone.clone());
            lifetime.tasks.spawn(async move {
                // Records how the process ended, for the errors of calls and of the connection.
                let _gone = gone.drop_guard();
                let text = match end.await {
                    Ok(ProcessEnd::Exited(code)) => format!("it ended with exit code {code}"),
                    Ok(ProcessEnd::Signaled(signal)) => format!("it was killed by signal {signal}"),
                    Ok(ProcessEnd::TimedOut | ProcessEnd::Cancelled) => "it was ended".to_owned(),
                    Err(error) => error.to_string(),
                };
                *ended.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(text);
            });
            let state = Arc::clone(&link.transport_state);
            let streams = LineTransport::new(process.output, process.input, state);
            serve_over(streams, client, mode, stop, link).await
        }
        McpTransport::Http { url, headers } => {
            let headers = header_map(headers).map_err(ServeError::Connect)?;
            let http = transport::transport(
                Arc::clone(&outside.http),
                url,
                headers,
                settings.login(outside),
                Arc::clone(&link.transport_state),
            );
            link.login_command = outside.logins.as_ref().map(|logins| logins.command.clone());
            serve_over(http, client, mode, stop, link).await
        }
        McpTransport::Client(server) => {
            let messages =
                LinkTransport::new(Arc::clone(server.link()), Arc::clone(&link.transport_state));
            serve_over(messages, client, mode, stop, link).await
        }
    }
}

async fn serve_over<T: Transport<RoleClient> + 'static>(
    transport: T,
    client: Client,
    mode: ClientLifecycleMode,
    stop: &CancellationToken,
    link: &ConnectionState,
) -> Result<RunningService<RoleClient, Client>, ServeError> {
    let guarded = BoundedTransport::new(transport, Arc::clone(&link.transport_state));
    let served = serve_client_with_lifecycle_and_ct(client, guarded, mode, stop.clone()).await;
    served.map_err(ServeError::Initialize)
}

async fn initialize_error(error: &ClientInitializeError, link: &ConnectionState) -> ConnectError {
    // Only the inner text, without the type names of the library's error.
    let why = if let ClientInitializeError::TransportError { error, .. } = error {
        error.error.to_string()
    } else if let ClientInitializeError::JsonRpcError(error) = error {
        error.message.to_string()
    } else {
        error.to_string()
    };
    link.refused_error(&text::one_line(&why, LONGEST)).await
}

fn header_map(
    headers: &std::collections::BTreeMap<String, String>,
) -> Result<HashMap<HeaderName, HeaderValue>, ConnectError> {
    let invalid_header = |name: &str| {
        // The value may be a secret, so only the name is quoted.
        let name = text::one_line(name, 100);
        ConnectError::Config(format!(
            "the header {name} cannot be sent: its name or value is invalid"
        ))
    };
    headers
        .iter()
        .map(|(name, value)| {
            let header = name.parse::<HeaderName>().map_err(|_| invalid_header(name))?;
            let mut value = HeaderValue::from_str(value).map_err(|_| invalid_header(name))?;
            value.set_sensitive(true);
            Ok((header, value))
        })
        .collect()
}

fn list_error(error: &ServiceError) -> String {
    if let ServiceError::McpError(error) = error {
        return format!("it failed to list its tools: {}", text::one_line(&error.message, LONGEST));
    }
    text::one_line(&error.to_string(), LONGEST)
}
