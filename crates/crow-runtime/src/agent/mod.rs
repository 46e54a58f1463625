//! Agents: spawned on a runtime, driven through handles, written as functions over internals.

mod agent_session;
mod agent_shared;
mod background;
mod child_agents;
mod children;
mod error;
mod handle;
mod hook_port;
mod inbox;
mod input;
mod internals;
mod job_changes;
mod job_notices;
mod launch;
mod model_call;
mod observer;
mod panic;
mod pipeline;
mod questions;
mod recorder;
mod run_budget;
mod runtime;
mod session_access;
mod session_header;
mod session_permissions;
mod session_writer;
mod side_requests;
mod subagent_waits;
mod undo_notices;
mod user_processes;

pub use agent_session::{AgentSession, SessionSpec};
pub use child_agents::{AgentFn, ChildFactory, ChildRun};
pub use children::{AgentAccess, ChildSpec};
pub use error::{AgentError, HandleError};
pub use handle::{AgentEnd, AgentHandle};
pub use input::InputMessage;
pub use internals::{
    AgentInternals, RunGuard, make_readable, read_unasked, readable_unasked, run_hooks,
    run_reading_line, set_hooks, take_hook_stop,
};
pub use model_call::{ModelCall, RequestSize};
pub use observer::{Observer, ObserverItem};
pub use pipeline::{ExecutedCall, ReadingLine, ReadingLineEnd, UnaskedRead};
pub use run_budget::RunBudget;
pub use runtime::{AgentRuntime, ShutdownReport};
pub use session_header::SessionHeader;
pub use session_permissions::SessionPermissions;

pub(crate) use panic::panic_message;
