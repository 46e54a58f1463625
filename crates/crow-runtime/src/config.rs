//! Configuration of a runtime.

use std::{path::PathBuf, sync::Arc, time::Duration};

use crow_core::{
    capability::{Answerer, Clock, NoAnswerer},
    ids::IdSource,
    model::{Models, NoModels},
    permission::PermissionPolicy,
    redact::Redactor,
};

use crate::{
    ChildEnvironment, LinkSearchConfig, SandboxConfig,
    changes::SnapshotStores,
    clock::SystemClock,
    ids::UuidSource,
    session::{MemoryStore, SessionStore},
};

/// Configuration of a runtime. The default needs nothing from outside: sessions are in memory, there are no models, and
/// questions are not asked.
#[derive(Debug, Clone)]
pub struct RuntimeConfig {
    /// The session store.
    pub store: Arc<dyn SessionStore>,
    /// The available models.
    pub models: Arc<dyn Models>,
    /// The permission policy for calls.
    pub policy: PermissionPolicy,
    /// Answers permission questions and questions to the user. A permission that exceeds the offers is reduced to the
    /// one call, and the user is notified.
    pub answerer: Arc<dyn Answerer>,
    /// The snapshot stores, which make changes of calls visible and undoable. Without them nothing is captured.
    pub snapshots: Option<Arc<SnapshotStores>>,
    /// Removes secrets from results, events and the log. Files are written unredacted.
    pub redactor: Redactor,
    /// The complete environment of every started process.
    pub child_env: ChildEnvironment,
    /// The sandbox of processes. Without it they have all rights of the program.
    pub sandbox: Option<SandboxConfig>,
    /// Folder of the sandboxes of other sessions, for sessions without a sandbox: what killed ones left is repaired there,
    /// too.
    pub sandbox_folder: Option<PathBuf>,
    /// Files of the user that links may lead away from. Each root session searches for their places while it starts, and
    /// hides and protects these, also from tools without a sandbox.
    pub links: Option<LinkSearchConfig>,
    /// The part of all traces that is recorded, from 0 to 1, for programs that export telemetry: commands and MCP servers are
    /// told of the trace of the call that started them. `None` tells them nothing.
    pub trace_sampling: Option<f64>,
    /// Limits on agents started by agents.
    pub children: ChildLimits,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Generates identifiers.
    pub ids: Arc<dyn IdSource>,
}

impl RuntimeConfig {
    /// Returns the time since a monotonic time of the clock.
    pub(crate) fn since(&self, start: Duration) -> Duration {
        self.clock.monotonic().saturating_sub(start)
    }

    /// Returns the milliseconds since a moment of the clock.
    pub(crate) fn millis_since(&self, start: Duration) -> u64 {
        whole_millis(self.since(start))
    }
}

/// Returns the whole milliseconds of a duration.
pub(crate) fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Limits on agents started by agents, per root session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildLimits {
    /// Maximum nesting depth: with 1, children start no children.
    pub depth: usize,
    /// Maximum number that run at once.
    pub running: usize,
}

impl Default for ChildLimits {
    fn default() -> Self {
        Self { depth: 1, running: 4 }
    }
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self {
            store: Arc::new(MemoryStore::default()),
            models: Arc::new(NoModels),
            policy: PermissionPolicy::default(),
            answerer: Arc::new(NoAnswerer),
            snapshots: None,
            redactor: Redactor::default(),
            child_env: ChildEnvironment::default(),
            sandbox: None,
            sandbox_folder: None,
            links: None,
            trace_sampling: None,
            children: ChildLimits::default(),
            clock: Arc::new(SystemClock::default()),
            ids: Arc::new(UuidSource),
        }
    }
}
