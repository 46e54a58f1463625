//! Agents: spawned on a runtime, driven through handles, written as functions over internals.

mod background;
mod child_agents;
mod children;
mod error;
mod handle;
mod header;
mod input;
mod internals;
mod jobs;
mod launch;
mod model_call;
mod panic;
mod questions;
mod runtime;
mod shared;
mod subagents;
mod switches;
mod undone;
mod user_processes;
mod waits;

pub use child_agents::{AgentFn, ChildFactory, ChildRun};
pub use children::{AgentAccess, ChildSpec};
pub use error::{AgentError, HandleError};
pub use handle::{AgentEnd, AgentHandle};
pub use input::InputMessage;
pub use internals::{AgentInternals, RunGuard};
pub use model_call::ModelCall;
pub use runtime::{AgentRuntime, ShutdownReport};

pub(crate) use panic::panic_message;
