//! The events of a session, as one type.
//!
//! Durable events are lines of the session's log, numbered by `seq`; the others (deltas, progress, state) exist only
//! in the stream. Adapters translate with an exhaustive match, so no event is forgotten.

mod agent_event;
mod parts;
#[cfg(test)]
pub(crate) mod tests;

pub use agent_event::{AgentEvent, AgentRole, Envelope, FORMAT_VERSION, ParentCall};
pub use parts::{
    AgentState, CheckReport, CheckRun, CompactionReport, CompactionTrigger, InstructionAuthor,
    InstructionFile, ModelCallTiming, NoticeAudience, NoticeLevel, PrefixPart, RequestPrefix,
    RunEnding, RunOutcome,
};

pub use crate::run::{Failure, FailureKind, InputSource, Verdict};
