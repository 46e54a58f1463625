//! Agents: async functions with an inbox, an event stream and a call pipeline.

mod error;
mod handle;
mod input;
mod internals;
mod model_call;
mod panic;
mod recorder;
mod runtime;
mod stream;

pub use error::{AgentError, HandleError};
pub use handle::AgentHandle;
pub use input::InputMessage;
pub use internals::{AgentInternals, RunGuard};
pub use model_call::ModelCall;
pub use runtime::AgentRuntime;
pub use stream::EventStream;

pub(crate) use panic::panic_message;
pub(crate) use recorder::Recorder;
