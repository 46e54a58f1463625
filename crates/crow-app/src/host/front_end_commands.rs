//! Commands of a session that a front end adds to those of the host, and the record of a session, which they may read.

use std::{collections::BTreeSet, fmt, sync::Arc};

use async_trait::async_trait;
use crow_core::{event::Envelope, ids::SessionId, model::Models, redact::Redactor};
use crow_mcp::ServerSummary;
use crow_providers::ProviderModels;
use crow_runtime::{
    AgentHandle, Damage, HostCommand, HostError, SessionError, SessionMetadata, SessionStore,
};

use super::product_host::blocking;
use crate::{environment::ProcessEnvironment, known_secrets::redactor};

/// Commands of a session that a front end adds to those of the host: their arguments are parsed as on its command
/// line, and their output is in its style.
#[async_trait]
pub trait SessionCommands: Send + Sync {
    /// Returns the commands in the order in which they are listed, before those of the host.
    fn commands(&self) -> Vec<HostCommand>;

    /// Runs the command of that name and returns its output.
    ///
    /// # Errors
    /// Fails if the arguments are invalid, or the command cannot do its work.
    async fn run(
        &self,
        session: CommandSession,
        name: &str,
        argument: &str,
    ) -> Result<String, HostError>;
}

/// An open session, as the commands of a front end use it.
pub struct CommandSession {
    /// The session's agent.
    pub handle: AgentHandle,
    /// Store of the session.
    pub store: Arc<dyn SessionStore>,
    /// Models, for their prices.
    pub models: Arc<dyn Models>,
    /// State of its MCP servers.
    pub servers: Vec<ServerSummary>,
    pub(super) environment: ProcessEnvironment,
    pub(super) providers: Option<Arc<ProviderModels>>,
}

impl CommandSession {
    /// Returns the environment of the process with the directory of the session as the current one.
    pub fn environment(&self) -> ProcessEnvironment {
        self.environment.clone().with_current_dir(self.handle.metadata().crow().cwd)
    }

    /// Reads the record of the session, redacted.
    ///
    /// # Errors
    /// Fails if the session cannot be read.
    pub async fn record(&self) -> Result<SessionRecord, HostError> {
        let (store, providers) = (Arc::clone(&self.store), self.providers.as_deref());
        read_record(store, &self.environment, providers, self.handle.session_id()).await
    }
}

impl fmt::Debug for CommandSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandSession").field("handle", &self.handle).finish_non_exhaustive()
    }
}

/// Merged record of a session and its descendants.
#[derive(Debug)]
pub struct SessionRecord {
    /// Header of the session.
    pub metadata: SessionMetadata,
    /// Events of all logs, in the order in which they happened.
    pub events: Vec<Envelope>,
    /// Damage of the session's own files.
    pub damage: Damage,
}

impl SessionRecord {
    /// Reads a session and its descendants, redacting the currently known secrets: a log may be older than the secret,
    /// or than this program. Unreadable descendants are left out. Blocks.
    pub fn read(
        store: &dyn SessionStore,
        id: &SessionId,
        redactor: &Redactor,
    ) -> Result<Self, SessionError> {
        let root = store.read(id)?;
        let mut lines = Vec::new();
        number(root.events, &mut lines);
        let mut visited = BTreeSet::from([id.clone()]);
        let mut pending = root.metadata.child_session_ids.clone();
        while let Some(child) = pending.pop() {
            if !visited.insert(child.clone()) {
                continue;
            }
            let Ok(stored) = store.read(&child) else { continue };
            pending.extend(stored.metadata.child_session_ids);
            number(stored.events, &mut lines);
        }
        lines.sort_by_key(|(number, _)| *number);
        let mut events: Vec<Envelope> = lines.into_iter().map(|(_, event)| event).collect();
        for line in &mut events {
            redactor.redact_event(&mut line.event);
        }
        Ok(Self { metadata: root.metadata, events, damage: root.damage })
    }
}

/// Appends the events of a log with their sort keys: the sequence number, or that of the previous event if it has none.
fn number(events: Vec<Envelope>, lines: &mut Vec<(u64, Envelope)>) {
    let mut last = 0;
    for event in events {
        last = event.seq.unwrap_or(last);
        lines.push((last, event));
    }
}

/// Reads the record of a session, redacted.
pub(super) async fn read_record(
    store: Arc<dyn SessionStore>,
    environment: &ProcessEnvironment,
    providers: Option<&ProviderModels>,
    id: &SessionId,
) -> Result<SessionRecord, HostError> {
    let redactor = redactor(environment, providers);
    let id = id.clone();
    let read = blocking(move || SessionRecord::read(store.as_ref(), &id, &redactor));
    Ok(read.await??)
}
