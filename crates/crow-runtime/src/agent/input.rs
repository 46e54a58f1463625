//! Input messages of an agent.

use crow_core::{
    ids::{CallId, RunId},
    message::{Block, PromptCommand},
    tool::ToolResult,
};

/// A message in the input queue of an agent. Interrupts, shutdown and answers to questions do not pass through it.
#[derive(Debug, Clone, PartialEq)]
pub enum InputMessage {
    /// A prompt of the user, which starts a run.
    UserInput {
        /// The run that it starts.
        run_id: RunId,
        /// The content of the prompt.
        content: Vec<Block>,
        /// The commands in its text whose output is to stand there, see [`UserPrompt`](crow_core::message::UserPrompt).
        commands: Vec<PromptCommand>,
    },
    /// A steering message of the user that arrived when no run was under way.
    Steering {
        /// The run that it starts.
        run_id: RunId,
        /// The content of the message.
        content: Vec<Block>,
    },
    /// The user asks for a compaction of the conversation, which is a run of its own without a prompt.
    Compaction {
        /// The run that it is.
        run_id: RunId,
        /// What the user wants to be kept above all.
        focus: Option<String>,
    },
    /// The result of an open call that was executed outside and not delivered to
    /// [`AgentInternals::call`](crate::AgentInternals::call).
    ToolResult {
        /// The call.
        call_id: CallId,
        /// Its result.
        result: Box<ToolResult>,
    },
}
