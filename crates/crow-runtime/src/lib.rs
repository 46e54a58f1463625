//! Running agents: sessions on disk, the event stream, the call pipeline and the process runner.
//!
//! An agent is an async function over [`AgentInternals`], spawned on an [`AgentRuntime`] and driven through an
//! [`AgentHandle`]. The crate knows no particular loop, no provider, no concrete tool and no protocol.

mod agent;
mod clock;
mod config;
mod ids;
mod pipeline;
mod process;
mod session;

pub use agent::{
    AgentError, AgentHandle, AgentInternals, AgentRuntime, EventStream, HandleError, InputMessage,
    ModelCall, RunGuard,
};
pub use clock::SystemClock;
pub use config::RuntimeConfig;
pub use ids::UuidSource;
pub use pipeline::ExecutedCall;
pub use process::ProcessRunner;
pub use session::{
    AgentSession, CrowMetadata, FileStore, MemoryStore, OpenedSession, SessionError, SessionLog,
    SessionMetadata, SessionSpec, SessionStore, StoredSession,
};
