//! What a runtime is made of.

use std::sync::Arc;

use crow_core::{
    capability::{Answerer, Clock, NoAnswerer},
    ids::IdSource,
    model::{Models, NoModels},
    permission::PermissionPolicy,
    redact::Redactor,
};

use crate::{
    ChildEnvironment, SandboxConfig,
    changes::SnapshotStores,
    clock::SystemClock,
    ids::UuidSource,
    session::{MemoryStore, SessionStore},
};

/// What a runtime is made of. The default needs nothing from outside: sessions live in memory, there are no models,
/// and nobody is asked.
#[derive(Debug, Clone)]
pub struct RuntimeConfig {
    /// Where sessions are kept.
    pub store: Arc<dyn SessionStore>,
    /// Which models there are.
    pub models: Arc<dyn Models>,
    /// Which calls may run.
    pub policy: PermissionPolicy,
    /// Who answers questions about calls. Where an answer allows more than what was offered, it allows the one call, and
    /// the user is told.
    pub answerer: Arc<dyn Answerer>,
    /// Where states of files are kept, so that what calls change is known and can be undone. Nothing is captured without.
    pub snapshots: Option<Arc<SnapshotStores>>,
    /// What may not show in results, events and the log. Files are written as they are.
    pub redactor: Redactor,
    /// The environment of every process that is started. Nothing else is passed on.
    pub child_env: ChildEnvironment,
    /// What holds the processes. Without one they may do what the program may do.
    pub sandbox: Option<SandboxConfig>,
    /// How many agents may be started by agents.
    pub children: ChildLimits,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Makes identifiers.
    pub ids: Arc<dyn IdSource>,
}

/// How many agents may be started by agents of one root session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildLimits {
    /// How deep they may stand: with 1, children start no children.
    pub depth: usize,
    /// How many may run at once.
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
            children: ChildLimits::default(),
            clock: Arc::new(SystemClock::default()),
            ids: Arc::new(UuidSource),
        }
    }
}
