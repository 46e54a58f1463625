//! A composition: several base agents that are one agent from outside.
//!
//! An [`AcpAgent`] is a primary, the coagents that look at its work, and the control flow between them. It is run on an
//! [`AcpSession`], which has the sessions of all of them below one root.

mod agent;
mod coagents;
mod deadline;
mod end_tools;
mod error;
mod failure;
mod result;
mod run;
mod serve;
mod session;
mod subagents;

pub use agent::{AcpAgent, AcpAgentParts, Coagent};
pub use end_tools::EndTools;
pub use error::CompositionError;
pub use result::RunResult;
pub use run::RunInput;
pub use serve::{serve, serve_latest};
pub use session::AcpSession;
pub use subagents::{Subagent, Subagents};
