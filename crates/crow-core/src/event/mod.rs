//! The events of a session, as one type.
//!
//! Durable events are lines of the session's log, numbered by `seq`; the others (deltas, progress, state) exist only
//! in the stream. Adapters translate with an exhaustive match, so no event is forgotten.

mod agent_event;
mod envelope;
mod instruction_file;
mod parts;
mod state;
#[cfg(test)]
pub(crate) mod tests;

pub use agent_event::AgentEvent;
pub use envelope::{AgentRole, Envelope, FORMAT_VERSION, ParentCall};
pub use instruction_file::{InstructionAuthor, InstructionFile};
pub use parts::{
    CheckReport, CheckRun, CompactionReport, CompactionTrigger, NoticeAudience, NoticeLevel,
    PrefixPart, RequestPrefix, RunOutcome,
};
pub use state::AgentState;

pub use crate::run::{Failure, FailureKind, InputSource, Verdict};
