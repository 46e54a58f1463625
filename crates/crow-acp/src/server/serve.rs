//! The server, and the life cycle of a connection.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use agent_client_protocol::{Agent, Client, ConnectTo, Error};
use crow_core::ids::SessionId;
use crow_runtime::AgentHost;
use futures_util::future::join_all;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinSet,
    time::sleep,
};

use super::{
    connection::AcpConnection,
    initialize::AcpIdentity,
    v1, v2,
    wire::{ClientWire, ClientWires, lines},
};

/// Time for the remaining messages to be written after the client has closed its side.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// Time for sent messages to be written if the client is still there.
const STOP_GRACE: Duration = Duration::from_millis(100);

/// Error that ended a connection or the server.
#[derive(Debug, thiserror::Error)]
#[error("clients cannot be served: {message}")]
pub struct AcpError {
    message: String,
}

impl AcpError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// ACP server of a product. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AcpServer {
    shared: Arc<ServerShared>,
}

/// State that all connections share.
#[derive(Debug)]
pub(super) struct ServerShared {
    host: Result<Arc<dyn AgentHost>, String>,
    pub identity: AcpIdentity,
    /// Number of connections that have a session attached.
    attach_counts: Mutex<HashMap<SessionId, usize>>,
    /// Connections that may still be open.
    connections: Mutex<Vec<Weak<AcpConnection>>>,
}

impl AcpServer {
    pub(super) fn shared(&self) -> &Arc<ServerShared> {
        &self.shared
    }

    /// Creates a server for a product.
    pub fn new(host: Arc<dyn AgentHost>, identity: AcpIdentity) -> Self {
        Self::of(Ok(host), identity)
    }

    /// Creates a server without a product: every request that needs one fails with `reason`. Editors show the error
    /// of a response, but not what a program printed before it exited.
    pub fn unusable(reason: impl Into<String>, identity: AcpIdentity) -> Self {
        Self::of(Err(reason.into()), identity)
    }

    fn of(host: Result<Arc<dyn AgentHost>, String>, identity: AcpIdentity) -> Self {
        let shown = Mutex::default();
        Self {
            shared: Arc::new(ServerShared {
                host,
                identity,
                attach_counts: shown,
                connections: Mutex::default(),
            }),
        }
    }

    /// Serves one client, with one message per line, until it is gone. Its sessions are closed then, unless another
    /// client has them open. A client that does not read is not waited for: when it has closed its side, or `stop`
    /// resolves, messages that it does not read within two seconds are lost.
    pub async fn serve(
        &self,
        incoming: impl AsyncRead + Send + Unpin + 'static,
        outgoing: impl AsyncWrite + Send + Unpin + 'static,
        stop: impl Future<Output = ()>,
    ) -> Result<(), AcpError> {
        let wire = Arc::new(ClientWire::default());
        let transport = lines(incoming, outgoing, Arc::clone(&wire));
        self.serve_over(transport, wire, stop).await
    }

    /// Serves one client over a transport that counts written updates on `wire`.
    pub(super) async fn serve_over(
        &self,
        transport: impl ConnectTo<Agent>,
        wire: Arc<ClientWire>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), AcpError> {
        let ways = Arc::new(ClientWires::Shared(Arc::clone(&wire)));
        let connection = AcpConnection::new(Arc::clone(&self.shared), ways);
        self.shared.connected(&connection);
        let agent = agent(&connection);
        let mut served = pin!(ConnectTo::<Agent>::connect_to(transport, agent));
        // 1) Serve until the protocol handler ends, the client is gone, or the server stops.
        let early = tokio::select! {
            result = &mut served => Some(result),
            () = wire.wait_for_end() => None,
            () = stop => None,
        };
        // 2) Close the sessions, in a task of its own: the handler may end meanwhile, and closing must still complete.
        let mut closing = JoinSet::new();
        closing.spawn(async move { connection.end().await });
        // 3) Let the handler deliver the last messages, within a grace period.
        let result = match early {
            Some(result) => result,
            None => {
                tokio::select! {
                    result = &mut served => result,
                    () = last_words(&mut closing, &wire) => Ok(()),
                }
            }
        };
        // An error is a panic of the task: there is no result to lose.
        drop(closing.join_next().await);
        match result {
            // The client is gone: its last responses could not be delivered.
            Err(_) if wire.has_ended() => Ok(()),
            result => result.map_err(|error| AcpError::new(error.message)),
        }
    }
}

/// Creates the protocol handler of a connection. The client's first message selects the version.
pub(super) fn agent(connection: &Arc<AcpConnection>) -> impl ConnectTo<Client> {
    Agent
        .protocol_router()
        .with_v1(v1::agent(Arc::clone(connection)))
        .with_v2(v2::agent(Arc::clone(connection)))
}

/// Waits until the sessions are closed, and then for a grace period in which the client can read the last messages.
async fn last_words(closing: &mut JoinSet<()>, wire: &ClientWire) {
    // An error is a panic of the task: there is no result to lose.
    drop(closing.join_next().await);
    sleep(if wire.has_ended() { CLOSE_GRACE } else { STOP_GRACE }).await;
}

impl ServerShared {
    /// Registers a connection.
    pub(super) fn connected(&self, connection: &Arc<AcpConnection>) {
        let mut connections = self.connections();
        connections.retain(|known| known.strong_count() > 0);
        connections.push(Arc::downgrade(connection));
    }

    /// Ends all registered connections.
    pub(super) async fn end_all(&self) {
        let all: Vec<_> =
            self.connections().drain(..).filter_map(|known| known.upgrade()).collect();
        join_all(all.iter().map(|connection| connection.end())).await;
    }

    /// Has changed titles and options of sessions sent on all connections.
    pub(super) fn refresh_sessions(&self) {
        let all: Vec<_> = self.connections().iter().filter_map(Weak::upgrade).collect();
        for connection in all {
            connection.refresh_sessions();
        }
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Weak<AcpConnection>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the product, or an error with the reason why there is none.
    pub(super) fn host(&self) -> Result<&Arc<dyn AgentHost>, Error> {
        self.host.as_ref().map_err(|reason| {
            let mut error = Error::internal_error();
            error.message.clone_from(reason);
            error
        })
    }

    /// Counts a connection that attaches a session.
    pub(super) fn count_attached(&self, id: &SessionId) {
        *self.attach_counts().entry(id.clone()).or_default() += 1;
    }

    /// Counts a connection that leaves a session. Returns true if it was the last one.
    pub(super) fn count_detached(&self, id: &SessionId) -> bool {
        let mut shown = self.attach_counts();
        let Some(count) = shown.get_mut(id) else { return true };
        *count = count.saturating_sub(1);
        let is_last = *count == 0;
        if is_last {
            shown.remove(id);
        }
        is_last
    }

    fn attach_counts(&self) -> MutexGuard<'_, HashMap<SessionId, usize>> {
        self.attach_counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
