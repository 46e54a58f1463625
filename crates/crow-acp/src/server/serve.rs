//! Serving clients.

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
    identity::AcpIdentity,
    v1, v2,
    ways::Ways,
    wire::{ClientWire, lines},
};

/// How long a client that said its last word may take to read what it is told.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How long what was sent may take to be written, where the client goes on.
const FLUSH: Duration = Duration::from_millis(100);

/// Why a connection broke down.
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

/// Serves a product to clients. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AcpServer {
    shared: Arc<ServerShared>,
}

/// What all connections share.
#[derive(Debug)]
pub(super) struct ServerShared {
    host: Result<Arc<dyn AgentHost>, String>,
    pub identity: AcpIdentity,
    /// How many connections show a session.
    shown: Mutex<HashMap<SessionId, usize>>,
    /// The connections that were made and may still be there.
    connections: Mutex<Vec<Weak<AcpConnection>>>,
}

impl AcpServer {
    pub(super) fn shared(&self) -> &Arc<ServerShared> {
        &self.shared
    }

    /// Makes a server of a product.
    pub fn new(host: Arc<dyn AgentHost>, identity: AcpIdentity) -> Self {
        Self::of(Ok(host), identity)
    }

    /// Makes a server that says why there is nothing to serve whenever a client wants a session: an editor shows what an
    /// answer says, and not what a program said before it ended.
    pub fn unusable(reason: impl Into<String>, identity: AcpIdentity) -> Self {
        Self::of(Err(reason.into()), identity)
    }

    fn of(host: Result<Arc<dyn AgentHost>, String>, identity: AcpIdentity) -> Self {
        let shown = Mutex::default();
        Self {
            shared: Arc::new(ServerShared { host, identity, shown, connections: Mutex::default() }),
        }
    }

    /// Serves one client until it is gone: one message per line. The sessions that it opened are closed then, unless
    /// another client shows them. A client that takes nothing any more is not waited for: when it has said its last word,
    /// or `stop` is there, what it did not take within two seconds is lost.
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

    /// Serves one client over a transport that counts on its way.
    pub(super) async fn serve_over(
        &self,
        transport: impl ConnectTo<Agent>,
        wire: Arc<ClientWire>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), AcpError> {
        let ways = Arc::new(Ways::One(Arc::clone(&wire)));
        let connection = AcpConnection::new(Arc::clone(&self.shared), ways);
        self.shared.connected(&connection);
        let agent = agent(&connection);
        let mut served = pin!(ConnectTo::<Agent>::connect_to(transport, agent));
        let early = tokio::select! {
            result = &mut served => Some(result),
            () = wire.ended() => None,
            () = stop => None,
        };
        // A task, since it may not be left half done when the last word is written meanwhile.
        let mut closing = JoinSet::new();
        closing.spawn(async move { connection.end().await });
        let result = match early {
            Some(result) => result,
            None => {
                tokio::select! {
                    result = &mut served => result,
                    () = last_words(&mut closing, &wire) => Ok(()),
                }
            }
        };
        // What broke down there has nothing more to say.
        drop(closing.join_next().await);
        match result {
            // It could not be told its last answers.
            Err(_) if wire.has_ended() => Ok(()),
            result => result.map_err(|error| AcpError::new(error.message)),
        }
    }
}

/// Makes the agent of a connection: the client's first word says which version it speaks.
pub(super) fn agent(connection: &Arc<AcpConnection>) -> impl ConnectTo<Client> {
    Agent
        .protocol_router()
        .with_v1(v1::agent(Arc::clone(connection)))
        .with_v2(v2::agent(Arc::clone(connection)))
}

/// Waits until the sessions are closed, and then a little for the client to read what it is told of that.
async fn last_words(closing: &mut JoinSet<()>, wire: &ClientWire) {
    // What broke down there has nothing more to say.
    drop(closing.join_next().await);
    sleep(if wire.has_ended() { LAST_WORDS } else { FLUSH }).await;
}

impl ServerShared {
    /// Keeps a connection in mind.
    pub(super) fn connected(&self, connection: &Arc<AcpConnection>) {
        let mut connections = self.connections();
        connections.retain(|known| known.strong_count() > 0);
        connections.push(Arc::downgrade(connection));
    }

    /// Ends all connections that are kept in mind.
    pub(super) async fn end_all(&self) {
        let all: Vec<_> =
            self.connections().drain(..).filter_map(|known| known.upgrade()).collect();
        join_all(all.iter().map(|connection| connection.end())).await;
    }

    /// Has all connections tell their clients what changed of their sessions beside what happened in them.
    pub(super) fn refresh_sessions(&self) {
        let all: Vec<_> = self.connections().iter().filter_map(Weak::upgrade).collect();
        for connection in all {
            connection.refresh_sessions();
        }
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Weak<AcpConnection>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the product.
    pub(super) fn host(&self) -> Result<&Arc<dyn AgentHost>, Error> {
        self.host.as_ref().map_err(|reason| {
            let mut error = Error::internal_error();
            error.message.clone_from(reason);
            error
        })
    }

    /// Counts a connection that shows a session.
    pub(super) fn attached(&self, id: &SessionId) {
        *self.shown().entry(id.clone()).or_default() += 1;
    }

    /// Counts a connection that shows a session no more. Returns whether it was the last one.
    pub(super) fn detached(&self, id: &SessionId) -> bool {
        let mut shown = self.shown();
        let Some(count) = shown.get_mut(id) else { return true };
        *count = count.saturating_sub(1);
        let is_last = *count == 0;
        if is_last {
            shown.remove(id);
        }
        is_last
    }

    fn shown(&self) -> MutexGuard<'_, HashMap<SessionId, usize>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
