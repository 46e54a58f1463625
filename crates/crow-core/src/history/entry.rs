//! The history as a timeline for people and programs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    ids::{CallId, ReplyId},
    message::CallArguments,
    tool_types::{ToolMetadata, ToolStatus},
};

/// An entry of the timeline. A result directly follows its call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum HistoryEntry {
    /// A message of the user, or of the loop on the user's behalf.
    User {
        /// The text.
        content: String,
        /// Time of the message.
        timestamp: Timestamp,
    },
    /// Text of the model.
    AssistantText {
        /// The reply that contains it.
        reply_id: ReplyId,
        /// The text.
        content: String,
        /// Time of the reply.
        timestamp: Timestamp,
    },
    /// Readable reasoning of the model.
    Thinking {
        /// The reply that contains it.
        reply_id: ReplyId,
        /// The text.
        content: String,
        /// Time of the reply.
        timestamp: Timestamp,
    },
    /// A call.
    ToolCall {
        /// The reply that asked for it.
        reply_id: ReplyId,
        /// The call.
        id: CallId,
        /// The name that the model called.
        name: String,
        /// The arguments as the model gave them.
        arguments: CallArguments,
        /// Time of the reply.
        timestamp: Timestamp,
    },
    /// The result of the call before it.
    ToolResult {
        /// The call.
        call_id: CallId,
        /// The tool by its real name, which may differ from the called one.
        tool: String,
        /// The status of the result.
        status: ToolStatus,
        /// The text for the model.
        output: String,
        /// Metadata of the result.
        metadata: Box<ToolMetadata>,
        /// Time of the result.
        timestamp: Timestamp,
    },
    /// A handoff of work between agents. Not sent to the model.
    Handoff {
        /// The agent that hands over.
        from_agent: String,
        /// The agent that takes over.
        to_agent: String,
        /// The prompt for the agent that takes over.
        prompt: String,
        /// Time of the handoff.
        timestamp: Timestamp,
    },
    /// An event of the session. Not sent to the model.
    System {
        /// The event.
        event: SystemEvent,
        /// Time of the event.
        timestamp: Timestamp,
    },
}

/// An event of the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum SystemEvent {
    /// The session began.
    SessionStart,
    /// A run was cancelled.
    Cancelled,
    /// The loop guard ended a turn.
    DoomLoopDetected,
    /// The step limit ended a turn.
    MaxIterationsReached,
    /// The conversation was compacted.
    Compacted {
        /// The text in place of the messages that were left out. Empty if only outputs were replaced.
        summary: String,
    },
    /// The agent declared the task done.
    TaskComplete {
        /// Its summary.
        final_response: String,
    },
    /// An error occurred.
    Error {
        /// The error text.
        error: String,
    },
}
