//! The history as a timeline for people and programs, and the conversion of folded items into its entries.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::reply::ReplyItem;
use crate::{
    event::AgentEvent,
    ids::{CallId, ReplyId},
    message::{Block, CallArguments, Message, ReplyContent},
    tool_types::{ToolMetadata, ToolStatus},
    turn::TurnEnd,
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

/// Adds the entries of a reply, each result directly after its call.
pub(super) fn push_reply_entries(reply: &ReplyItem, entries: &mut Vec<HistoryEntry>) {
    let Some(said) = reply.contents() else { return };
    let mut answers = reply.answers.iter().enumerate();
    for content in said.contents {
        let (reply_id, timestamp) = (said.reply_id.clone(), reply.at);
        match content {
            ReplyContent::Text { text: content } => {
                entries.push(HistoryEntry::AssistantText { reply_id, content, timestamp });
            }
            ReplyContent::Thinking { text } if text.is_empty() => {}
            ReplyContent::Thinking { text: content } => {
                entries.push(HistoryEntry::Thinking { reply_id, content, timestamp });
            }
            ReplyContent::Opaque => {}
            ReplyContent::Call(call) => {
                entries.push(HistoryEntry::ToolCall {
                    reply_id,
                    id: call.id.clone(),
                    name: call.name,
                    arguments: call.arguments,
                    timestamp,
                });
                if let Some((position, Some(answer))) = answers.next() {
                    entries.push(HistoryEntry::ToolResult {
                        call_id: call.id,
                        tool: answer.tool.to_string(),
                        status: answer.status,
                        output: reply.output(position).to_owned(),
                        metadata: Box::new(answer.metadata.read()),
                        timestamp: answer.at,
                    });
                }
            }
        }
    }
}

/// Returns the text of a user message; an image is `[image]`.
pub(super) fn text_of(message: &Message) -> String {
    let Message::User(user) = message else { return String::new() };
    let texts = user.content.iter().map(|block| match block {
        Block::Text { text } => text.as_str(),
        Block::Image(_) => "[image]",
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the timeline's entry for an event that is not a message.
#[expect(clippy::wildcard_enum_match_arm, reason = "only a few events show in the timeline")]
pub(super) fn system_event(event: &AgentEvent) -> Option<SystemEvent> {
    match event {
        AgentEvent::SessionStart { .. } => Some(SystemEvent::SessionStart),
        AgentEvent::Cancelled => Some(SystemEvent::Cancelled),
        AgentEvent::TaskComplete { summary, .. } => {
            Some(SystemEvent::TaskComplete { final_response: summary.clone() })
        }
        AgentEvent::TurnComplete { end: TurnEnd::DoomLoop { .. }, .. } => {
            Some(SystemEvent::DoomLoopDetected)
        }
        AgentEvent::TurnComplete { end: TurnEnd::MaxSteps { .. }, .. } => {
            Some(SystemEvent::MaxIterationsReached)
        }
        AgentEvent::Error { error, .. } => Some(SystemEvent::Error { error: error.clone() }),
        _ => None,
    }
}
