//! Commands of a session that a front end adds to those of the host.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use crow_core::{ids::SessionId, model::Models};
use crow_providers::ProviderModels;
use crow_runtime::{AgentHandle, HostCommand, HostError, SessionStore};

use super::product_host::blocking;
use crate::{
    environment::ProcessEnvironment, known_secrets::redactor, session_record::SessionRecord,
};

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
    pub(super) environment: ProcessEnvironment,
    pub(super) providers: Option<Arc<ProviderModels>>,
}

impl CommandSession {
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
