//! Beginning and ending a connection.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crow_core::{
    capability::{OutputTail, PipedSpec, ProcessEnd},
    mcp::McpTransport,
};
use http::{HeaderName, HeaderValue};
use rmcp::{
    RoleClient,
    model::{ErrorCode, ProtocolVersion},
    service::{
        ClientInitializeError, ClientLifecycleMode, Peer, RunningService,
        serve_client_with_lifecycle_and_ct,
    },
};
use tokio::{sync::Mutex, time::timeout};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{
    client::Client,
    failure::ConnectError,
    listed::ToolListing,
    settings::{ConnectionContext, McpSettings},
    text,
    transport::{
        self, BoundedTransport, LineTransport, LinkTransport, ServerTransport, TransportState,
        error_text,
    },
};

/// Number of bytes of standard error that are retained.
const ERRORS: usize = 8 * 1024;
/// Codes of the errors by which a server may say that it has no handshake: unknown method, invalid parameters, and
/// unsupported version.
const NO_HANDSHAKE: [ErrorCode; 3] =
    [ErrorCode::METHOD_NOT_FOUND, ErrorCode::INVALID_PARAMS, ErrorCode(-32022)];
/// Time limit of connecting to a server without a handshake, after it refused one.
const DISCOVERY: Duration = Duration::from_secs(10);
/// Timeout of an orderly shutdown, before the process is killed.
const GOODBYE: Duration = Duration::from_millis(300);
/// The time to wait for the exit status of a program that closed its output: it explains more than the closed stream.
const ENDING: Duration = Duration::from_millis(1500);
/// Protocol version for stateless servers, where no request depends on an earlier one.
pub(super) const WITHOUT_MEMORY: ProtocolVersion = ProtocolVersion::V_2026_07_28;
/// Maximum length in bytes of a server's text in an error.
pub(super) const LONGEST: usize = 1000;

/// A connection to a server. Dropping it ends the server, if it is a process.
pub(crate) struct ServerConnection {
    pub(super) peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, Client>>>,
    pub(super) state: ConnectionState,
    pub(super) tasks: TaskTracker,
    _ends: DropGuard,
}

/// The part of a connection that exists before the handshake is complete.
#[derive(Debug, Clone)]
pub(super) struct ConnectionState {
    pub(super) transport_state: Arc<TransportState>,
    pub(super) errors: OutputTail,
    /// Description of the exit, set when the process has ended; always none for other transports.
    ended: Arc<std::sync::Mutex<Option<String>>>,
    /// Cancelled when the process has ended; none for other transports.
    gone: Option<CancellationToken>,
    /// Display name of the server.
    pub(super) name: String,
    /// Command by which a user logs in; none where logins are not used.
    login_hint: Option<String>,
    /// Answers the requests of the server; set when the connection begins.
    pub(super) client: Option<Client>,
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
            login_hint: None,
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
    pub(super) async fn close_message(&self) -> String {
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
        if let (Some(challenge), Some(hint)) =
            (self.transport_state.take_challenge(), self.login_hint.clone())
        {
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
    let discover = ClientLifecycleMode::Discover { preferred_versions: vec![WITHOUT_MEMORY] };
    if !has_handshake {
        let client = new_client(outside, link).stateless();
        let served = serve(client, discover, settings, outside, lifetime, stop, link).await;
        return to_connect_result(served, link).await;
    }
    let client = new_client(outside, link);
    let client = match &wanted {
        Some(version) => client.with_protocol_version(version.clone()),
        None => client,
    };
    // A token of its own, so that the program of a failed attempt ends before the next one starts.
    let attempt = stop.child_token();
    let mode = ClientLifecycleMode::Initialize;
    let first = serve(client, mode, settings, outside, lifetime, &attempt, link).await;
    let refused = match &first {
        Err(HandshakeError::Initialize(error)) if wanted.is_none() => has_no_handshake(error),
        Ok(_) | Err(_) => None,
    };
    let Some(refused) = refused else { return to_connect_result(first, link).await };
    attempt.cancel();
    if let Some(gone) = &link.gone {
        // The time limit of the attempt to connect applies.
        gone.cancelled().await;
    }
    link.transport_state = Arc::default();
    link.ended = Arc::default();
    link.gone = None;
    let client = new_client(outside, link).stateless();
    let second = serve(client, discover, settings, outside, lifetime, stop, link);
    match timeout(DISCOVERY, second).await {
        Ok(Ok(service)) => Ok(service),
        Ok(Err(HandshakeError::Connect(error))) => Err(error),
        // The first answer says more.
        Ok(Err(HandshakeError::Initialize(_))) | Err(_) => Err(link.refused_error(&refused).await),
    }
}

fn new_client(outside: &ConnectionContext, link: &ConnectionState) -> Client {
    let state = Arc::clone(&link.transport_state);
    Client::new(&link.name, &outside.roots, outside.browser.clone(), state)
}

/// Returns the message of an error by which a server says that it has no handshake.
fn has_no_handshake(error: &ClientInitializeError) -> Option<String> {
    let ClientInitializeError::JsonRpcError(error) = error else { return None };
    NO_HANDSHAKE.contains(&error.code).then(|| text::one_line(&error.message, LONGEST))
}

/// Error of beginning a connection.
enum HandshakeError {
    Connect(ConnectError),
    Initialize(Box<ClientInitializeError>),
}

async fn to_connect_result(
    served: Result<RunningService<RoleClient, Client>, HandshakeError>,
    link: &ConnectionState,
) -> Result<RunningService<RoleClient, Client>, ConnectError> {
    match served {
        Ok(service) => Ok(service),
        Err(HandshakeError::Connect(error)) => Err(error),
        Err(HandshakeError::Initialize(error)) => Err(initialize_error(&error, link).await),
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
) -> Result<RunningService<RoleClient, Client>, HandshakeError> {
    link.client = Some(client.clone());
    match &settings.server.transport {
        McpTransport::Stdio { command, args, env, cwd } => {
            let root = outside.roots.first().cloned().unwrap_or_else(|| "/".into());
            let cwd = cwd.as_ref().map_or_else(|| root.clone(), |cwd| root.join(cwd));
            let argv = std::iter::once(command).chain(args).cloned().collect();
            let spec = PipedSpec { argv, cwd, env: env.clone(), stderr_tail: link.errors.clone() };
            let process = outside.processes.start(spec, stop.clone()).await;
            let process = process.map_err(|error| HandshakeError::Connect(error.into()))?;
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
            serve_over(ServerTransport::Lines(streams), client, mode, stop, link).await
        }
        McpTransport::Http { url, headers } => {
            let headers = header_map(headers).map_err(HandshakeError::Connect)?;
            let http = transport::transport(
                Arc::clone(&outside.http),
                url,
                headers,
                settings.login(outside, &lifetime.tasks),
                Arc::clone(&link.transport_state),
            );
            let name = &settings.server.name;
            link.login_hint = outside.logins.as_ref().map(|logins| logins.hint(name, &[]));
            serve_over(ServerTransport::Http(http), client, mode, stop, link).await
        }
        McpTransport::Client(server) => {
            let messages =
                LinkTransport::new(Arc::clone(server.link()), Arc::clone(&link.transport_state));
            serve_over(ServerTransport::Link(messages), client, mode, stop, link).await
        }
    }
}

async fn serve_over(
    transport: ServerTransport,
    client: Client,
    mode: ClientLifecycleMode,
    stop: &CancellationToken,
    link: &ConnectionState,
) -> Result<RunningService<RoleClient, Client>, HandshakeError> {
    let guarded = BoundedTransport::new(transport, Arc::clone(&link.transport_state));
    let served = serve_client_with_lifecycle_and_ct(client, guarded, mode, stop.clone()).await;
    served.map_err(|error| HandshakeError::Initialize(Box::new(error)))
}

async fn initialize_error(error: &ClientInitializeError, link: &ConnectionState) -> ConnectError {
    // Only the inner text, without the type names of the library's error.
    let why = if let ClientInitializeError::TransportError { error, .. } = error {
        error_text(error.error.as_ref())
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
