//! The history as a timeline for people and programs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    ids::{CallId, ReplyId},
    message::CallArguments,
    tool_types::{ToolMetadata, ToolStatus},
};

/// One thing that happened. A result directly follows its call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum HistoryEntry {
    /// Words of the user, or of the loop in the user's place.
    User {
        /// The words.
        content: String,
        /// When.
        timestamp: Timestamp,
    },
    /// Text of the model.
    AssistantText {
        /// The reply that it came in.
        reply_id: ReplyId,
        /// The text.
        content: String,
        /// When.
        timestamp: Timestamp,
    },
    /// Readable reasoning of the model.
    Thinking {
        /// The reply that it came in.
        reply_id: ReplyId,
        /// The text.
        content: String,
        /// When.
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
        /// When.
        timestamp: Timestamp,
    },
    /// The result of the call before it.
    ToolResult {
        /// The call.
        call_id: CallId,
        /// The tool by its true name.
        tool: String,
        /// How it ended.
        status: ToolStatus,
        /// The text for the model.
        output: String,
        /// What is known beside the output.
        metadata: Box<ToolMetadata>,
        /// When.
        timestamp: Timestamp,
    },
    /// Work was handed over. Not sent to the model.
    Handoff {
        /// The agent that gave.
        from_agent: String,
        /// The agent that took.
        to_agent: String,
        /// What it was told.
        prompt: String,
        /// When.
        timestamp: Timestamp,
    },
    /// Something about the session. Not sent to the model.
    System {
        /// What.
        event: SystemEvent,
        /// When.
        timestamp: Timestamp,
    },
}

/// Something about the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum SystemEvent {
    /// It began.
    SessionStart,
    /// A run was cancelled.
    Cancelled,
    /// The loop guard ended a turn.
    DoomLoopDetected,
    /// The step limit ended a turn.
    MaxIterationsReached,
    /// The agent said that the task is done.
    TaskComplete {
        /// What it said about it.
        final_response: String,
    },
    /// Something failed.
    Error {
        /// What.
        error: String,
    },
}
