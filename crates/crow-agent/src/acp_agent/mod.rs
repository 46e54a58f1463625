//! A composition: several base agents that are one agent from outside.
//!
//! An [`AcpAgent`] is a primary, the coagents that look at its work, and the control flow between them. It is run on an
//! [`AcpSession`], which has the sessions of all of them below one root.

mod agent;
mod coagents;
mod run;
mod serve;
mod session;
mod subagents;

pub use agent::{AcpAgent, AcpAgentParts, Coagent, CompositionError};
pub use run::{RunInput, RunResult};
pub use serve::{serve, serve_latest};
pub use session::AcpSession;
pub use subagents::{Subagent, Subagents};
