//! Running agents: sessions on disk, the event stream, the call pipeline and the process runner.
//!
//! An agent is an async function over [`AgentInternals`], spawned on an [`AgentRuntime`] and driven through an
//! [`AgentHandle`]. The crate knows no particular loop, no provider, no concrete tool and no protocol.
//!
//! A custom loop needs no more than this; `internals.call_model` and `internals.call` give it a model and tools:
//!
//! ```
//! use std::time::Duration;
//!
//! use crow_core::{event::{AgentEvent, InputSource, RunOutcome}, message::Block};
//! use crow_runtime::{AgentError, AgentInternals, AgentRuntime, AgentSession, InputMessage, RuntimeConfig, SessionSpec};
//! use futures_util::StreamExt as _;
//!
//! /// Answers every prompt with a greeting.
//! async fn greeter(mut internals: AgentInternals) -> Result<(), AgentError> {
//!     loop {
//!         let InputMessage::UserInput { run_id, content, .. } = internals.receive().await? else { continue };
//!         let run = internals.start_run(run_id).await?;
//!         internals.add_input(InputSource::Prompt, None, content).await?;
//!         let summary = format!("Hello. You are number {}.", internals.history().entries().len());
//!         internals.end_run(run, RunOutcome::Completed { summary, verified: false }).await?;
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = RuntimeConfig::default();
//! let session = AgentSession::create(&config, SessionSpec::new("greeter", "none/none".parse()?, "/"))?;
//! let runtime = AgentRuntime::new(config);
//! let handle = runtime.spawn(session, greeter);
//! let mut events = handle.stream().ok_or("the stream is taken")?;
//! handle.send_input(vec![Block::text("hi")])?;
//! while let Some(event) = events.next().await {
//!     if let AgentEvent::RunEnd { result, .. } = &event.event {
//!         assert!(matches!(result, RunOutcome::Completed { .. }));
//!         break;
//!     }
//! }
//! runtime.shutdown(handle.session_id(), Duration::from_secs(1)).await;
//! # Ok(())
//! # }
//! ```

mod access;
mod agent;
mod agent_tree;
mod changes;
mod clock;
mod config;
mod delegated_calls;
mod events;
mod host;
mod ids;
mod pending_questions;
mod provider_route;
mod quarantine_messages;
mod rule_links;
mod rule_store;
mod session;
mod undo;

pub use access::{AccessToken, is_loopback_host};
pub use agent::{
    AgentAccess, AgentEnd, AgentError, AgentFn, AgentHandle, AgentInternals, AgentRuntime,
    AgentSession, ChildFactory, ChildRun, ChildSpec, ExecutedCall, HandleError, InputMessage,
    ModelCall, Observer, ObserverItem, ReadingLine, ReadingLineEnd, RequestSize, RunBudget,
    RunGuard, SessionHeader, SessionPermissions, SessionSpec, ShutdownReport, UnaskedRead,
    make_readable, read_unasked, readable_unasked, run_hooks, run_reading_line, set_hooks,
    take_hook_stop,
};
pub use changes::SnapshotStores;
pub use clock::SystemClock;
pub use config::{ChildLimits, RuntimeConfig};
pub use crow_core::{
    network::{AllowedHosts, HostPattern, HostPatternError, Network},
    settings::{OpenedWith, SystemPrompt},
};
pub use crow_sandbox::{
    ChildEnvironment, LinkGap, LinkSearch, LinkSearchConfig, LinkSearchError, LinkedPaths,
    ProcessLimits, ProcessRunner, RecoveryReport, Sandbox, SandboxConfig, SandboxProfile, UserGit,
    WrittenFile, adopt_orphans, reset_ignored_signals, start_detached,
};
pub use crow_snapshot::{
    Activities, Activity, Capture, CollectionReport, ContentRef, FileStamp, JobActivity,
    NotCovered, NotCoveredReason, NotScanned, ObjectHash, PathChange, RestoreOutcome,
    RestoreResult, Scan, SnapshotEntry, SnapshotLimits, SnapshotStore, SnapshotStoreError,
    StoreCheckReport, StoreData,
};
pub use events::{EventStream, OpenReply};
pub use host::{
    AgentHost, CommandOutcome, HostCommand, HostError, NewSession, OptionChoice, OptionKind,
    SessionOption, SessionSetup, SessionUsage,
};
pub use ids::UuidSource;
pub use pending_questions::{AnswerError, HandleAnswerer};
pub use provider_route::{
    ProviderAddress, ProviderChange, ProviderHeader, ProviderNecessity, ProviderProtocol,
    ProviderRoute, SecretText,
};
pub use rule_links::{resolve_path, resolve_rules};
pub use rule_store::{RuleStore, RuleStoreError, StoredRules};
pub use session::{
    CallKey, CrowMetadata, Damage, FileStore, ImportedSession, ListCursor, LostLine, MemoryStore,
    ModelUsage, OpenedSession, PathException, ReservedKey, RootSession, SessionError,
    SessionFilter, SessionLog, SessionMetadata, SessionRepair, SessionStore, StoredSession,
    UndoAction, UndoRecord, UnusedSessions,
};
pub use undo::{
    ChangedCall, PathOutcome, RestorePoint, RestoredPath, UndoError, UndoJournal, UndoOptions,
    UndoReport, UndoTarget,
};
