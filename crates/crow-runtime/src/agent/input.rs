//! What can be said to an agent.

use crow_core::{
    ids::{CallId, RunId},
    message::Block,
    tool::ToolResult,
};

/// What can be said to an agent through its queue. Interrupt, shutdown and answers to questions do not wait in it.
#[derive(Debug, Clone, PartialEq)]
pub enum InputMessage {
    /// The user's words, which start a run.
    UserInput {
        /// The run that they start.
        run_id: RunId,
        /// The words.
        content: Vec<Block>,
    },
    /// The user's words that were meant for a run and came when none was under way any more.
    Steering {
        /// The run that they start.
        run_id: RunId,
        /// The words.
        content: Vec<Block>,
    },
    /// The result of an open call that was run outside and was not given to [`AgentInternals::call`](crate::AgentInternals::call).
    ToolResult {
        /// The call.
        call_id: CallId,
        /// Its result.
        result: Box<ToolResult>,
    },
}
