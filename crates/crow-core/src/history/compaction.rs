//! A compaction of the conversation: which messages are left out of it, and what stands in their place.
//!
//! The order afterwards is: the kept messages of the user, the summary, the part that is kept whole. Only messages of
//! the user are kept from before that part, and it begins with a message of the user or a reply, so that no result is
//! without its call. A message whose outputs are masked gets a new id: encoders recognize messages by their ids.

use std::sync::Arc;

use jiff::Timestamp;

use super::HistoryError;
use crate::{
    ids::{CallId, MessageId},
    message::{Block, Message, ResultMessage, ResultsMessage, UserMessage, wrap_in_tag},
};

/// Beginning of the ids of reminders, which the program makes.
pub(super) const REMINDER_ID: &str = "notice-";
/// Beginning of the ids of messages with the instructions of files.
pub(super) const INSTRUCTIONS_ID: &str = "instructions-";
/// Beginning of the ids of summaries.
const SUMMARY_ID: &str = "compaction-";

/// Returns true if a message has what somebody wrote to the agent: the user, a reviewer, the loop. Reminders,
/// instructions of files and summaries are messages of the program.
pub fn is_user_input(message: &Message) -> bool {
    let Message::User(user) = message else { return false };
    let id = user.id.as_str();
    ![REMINDER_ID, INSTRUCTIONS_ID, SUMMARY_ID].iter().any(|prefix| id.starts_with(prefix))
}

/// Returns true if a message has the instructions of files.
pub fn has_instructions(message: &Message) -> bool {
    matches!(message, Message::User(user) if user.id.as_str().starts_with(INSTRUCTIONS_ID))
}

/// Returns true if a message is a summary, which stands in place of what a compaction left out.
pub fn is_summary(message: &Message) -> bool {
    matches!(message, Message::User(user) if user.id.as_str().starts_with(SUMMARY_ID))
}

/// Characters that are kept of an output that the model has not seen.
const UNSEEN_EXCERPT: usize = 2_000;

/// A compaction, as the log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CompactionItem {
    pub(super) at: Timestamp,
    /// Number of its event.
    pub(super) seq: u64,
    pub(super) summary: String,
    pub(super) first_kept: MessageId,
    pub(super) kept: Vec<MessageId>,
    pub(super) masked: Vec<CallId>,
}

impl CompactionItem {
    /// Returns the conversation after the compaction.
    pub(super) fn apply(
        &self,
        messages: &[Arc<Message>],
    ) -> Result<Vec<Arc<Message>>, HistoryError> {
        let unknown = || HistoryError::UnknownFirstKept { message_id: self.first_kept.clone() };
        let first = messages
            .iter()
            .position(|message| *message.id() == self.first_kept)
            .ok_or_else(unknown)?;
        if matches!(messages[first].as_ref(), Message::Results(_)) {
            return Err(unknown());
        }
        let (before, tail) = messages.split_at(first);
        let kept = before.iter().filter(|message| {
            matches!(message.as_ref(), Message::User(_)) && self.kept.contains(message.id())
        });
        let summary = (!self.summary.is_empty()).then(|| Arc::new(self.summary_message()));
        // The model has not seen the outputs of the last reply.
        let unseen = tail.len() - 1;
        let tail = tail.iter().enumerate().map(|(at, message)| self.mask(message, at == unseen));
        Ok(kept.cloned().chain(summary).chain(tail).collect())
    }

    fn summary_message(&self) -> Message {
        let text = wrap_in_tag(
            "summary",
            "the conversation before, which is no longer shown",
            &self.summary,
        );
        let id = MessageId::new(format!("{SUMMARY_ID}{}", self.seq));
        Message::User(UserMessage { id, content: vec![Block::text(text)] })
    }

    /// Returns the message with the outputs of masked calls replaced by placeholders, or by excerpts if they are unseen.
    fn mask(&self, message: &Arc<Message>, are_unseen: bool) -> Arc<Message> {
        let Message::Results(results) = message.as_ref() else { return Arc::clone(message) };
        if !results.results.iter().any(|result| self.masked.contains(&result.call_id)) {
            return Arc::clone(message);
        }
        let masked = results.results.iter().map(|result| {
            if self.masked.contains(&result.call_id) {
                let text = if are_unseen { excerpt(result) } else { placeholder(result) };
                ResultMessage { content: vec![Block::text(text)], ..result.clone() }
            } else {
                result.clone()
            }
        });
        let id = MessageId::new(format!("{}-masked-{}", results.id, self.seq));
        Arc::new(Message::Results(ResultsMessage { id, results: masked.collect() }))
    }
}

/// Returns a message with the outputs of the calls that `masks` selects replaced by placeholders, under another id; the message itself if it
/// has none of them that is longer than a placeholder.
pub fn mask_outputs(message: &Arc<Message>, masks: impl Fn(&CallId) -> bool) -> Arc<Message> {
    let Message::Results(results) = message.as_ref() else { return Arc::clone(message) };
    let mut masked = 0_usize;
    let after = results.results.iter().map(|result| {
        let placeholder = placeholder(result);
        let is_masked =
            masks(&result.call_id) && Block::text_of(&result.content).len() > placeholder.len();
        if is_masked {
            masked += 1;
            ResultMessage { content: vec![Block::text(placeholder)], ..result.clone() }
        } else {
            result.clone()
        }
    });
    let after = after.collect();
    if masked == 0 {
        return Arc::clone(message);
    }
    let id = MessageId::new(format!("{}-masked{masked}", results.id));
    Arc::new(Message::Results(ResultsMessage { id, results: after }))
}

/// Returns the beginning and the end of an output that the model has not seen.
fn excerpt(result: &ResultMessage) -> String {
    let text = Block::text_of(&result.content);
    let count = text.chars().count();
    let half = UNSEEN_EXCERPT / 2;
    if count <= UNSEEN_EXCERPT {
        return text;
    }
    let (head, tail): (String, String) =
        (text.chars().take(half).collect(), text.chars().skip(count - half).collect());
    let left_out = text.len() - head.len() - tail.len();
    format!("{head}\n[{left_out} bytes left out: the context window is too small]\n{tail}")
}

/// Returns the text that replaces an output.
fn placeholder(result: &ResultMessage) -> String {
    let bytes: usize = result
        .content
        .iter()
        .map(|block| match block {
            Block::Text { text } => text.len(),
            Block::Image(_) => 0,
        })
        .sum();
    let has_image = result.content.iter().any(|block| matches!(block, Block::Image(_)));
    let image = if has_image { " and a picture" } else { "" };
    format!("[output left out to save space: {bytes} bytes{image}, id {}]", result.call_id)
}
