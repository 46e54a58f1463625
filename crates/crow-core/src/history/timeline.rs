//! Conversion of folded items into timeline entries.

use super::{HistoryEntry, SystemEvent, reply::ReplyItem};
use crate::{
    event::AgentEvent,
    message::{Block, Message, ReplyContent},
    turn::TurnEnd,
};

/// Adds the entries of a reply, each result directly after its call.
pub(super) fn push_reply_entries(reply: &ReplyItem, entries: &mut Vec<HistoryEntry>) {
    let Message::Assistant(message) = reply.message.as_ref() else { return };
    let mut answers = reply.answers.iter().enumerate();
    for block in &message.blocks {
        let (reply_id, timestamp) = (message.reply_id.clone(), reply.at);
        match &block.content {
            ReplyContent::Text { text } => entries.push(HistoryEntry::AssistantText {
                reply_id,
                content: text.clone(),
                timestamp,
            }),
            ReplyContent::Thinking { text } if text.is_empty() => {}
            ReplyContent::Thinking { text } => {
                entries.push(HistoryEntry::Thinking { reply_id, content: text.clone(), timestamp });
            }
            ReplyContent::Opaque => {}
            ReplyContent::Call(call) => {
                entries.push(HistoryEntry::ToolCall {
                    reply_id,
                    id: call.id.clone(),
                    name: call.name.clone(),
                    arguments: call.arguments.clone(),
                    timestamp,
                });
                if let Some((position, Some(answer))) = answers.next() {
                    entries.push(HistoryEntry::ToolResult {
                        call_id: call.id.clone(),
                        tool: answer.tool.clone(),
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
