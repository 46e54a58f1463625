//! The messages of the last request, and the first difference to those of the next one.
//!
//! A conversation is only appended to, except by a compaction and a rewind. So the messages that a request shares with
//! the one before are compared only after one of those: otherwise a log would take time quadratic in its messages.

use std::sync::Arc;

use crow_core::message::Message;
use serde_json::json;

/// Characters of a text around the first difference.
const EXCERPT: usize = 40;

/// The messages of the last request.
#[derive(Debug, Default)]
pub(super) struct SentMessages {
    messages: Vec<Arc<Message>>,
    /// Number of messages at the beginning that the conversation still has.
    unchanged: usize,
}

/// The first difference between the messages of two requests in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixDifference {
    /// Index of the first message that differs.
    pub message: usize,
    /// The first byte that differs in it.
    pub byte: usize,
    /// The text from there in the request before. Empty if it had no more.
    pub before: String,
    /// The text from there in this request.
    pub after: String,
}

impl SentMessages {
    /// Returns the messages.
    pub(super) fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// Makes the next request be compared from its beginning, because an event changes the conversation.
    pub(super) fn expect_changes(&mut self) {
        self.unchanged = 0;
    }

    /// Puts the messages of the next request in place of these. Returns the first difference; `None` if these are a
    /// prefix of those.
    pub(super) fn replace(
        &mut self,
        next: &[Arc<Message>],
        mut is_same: impl FnMut(&Arc<Message>, &Arc<Message>) -> bool,
    ) -> Option<PrefixDifference> {
        let mut compared = self.messages.iter().enumerate().skip(self.unchanged);
        let differs = compared
            .find(|(index, message)| next.get(*index).is_none_or(|other| !is_same(message, other)));
        let difference = differs.map(|(index, message)| {
            difference_at(index, message, next.get(index).map(Arc::as_ref))
        });
        let kept = if difference.is_some() { 0 } else { self.messages.len() };
        self.messages.truncate(kept);
        self.messages.extend_from_slice(&next[kept..]);
        self.unchanged = self.messages.len();
        difference
    }
}

/// Returns true if the provider is sent the same for both messages.
pub(super) fn is_same(one: &Arc<Message>, other: &Arc<Message>) -> bool {
    Arc::ptr_eq(one, other) || has_same_content(one, other)
}

/// Describes the difference between a message and the one in its place, if there is one.
fn difference_at(message: usize, before: &Message, after: Option<&Message>) -> PrefixDifference {
    let (before, after) = (sent_text(before), after.map_or(String::new(), sent_text));
    let byte = before.bytes().zip(after.bytes()).take_while(|(one, other)| one == other).count();
    let byte = before.floor_char_boundary(byte);
    let excerpt = |text: &str| text[byte.min(text.len())..].chars().take(EXCERPT).collect();
    PrefixDifference { message, byte, before: excerpt(&before), after: excerpt(&after) }
}

/// Returns true if the provider is sent the same for both messages, whatever their ids are.
fn has_same_content(one: &Message, other: &Message) -> bool {
    match (one, other) {
        (Message::User(one), Message::User(other)) => one.content == other.content,
        (Message::Assistant(one), Message::Assistant(other)) => one.blocks == other.blocks,
        (Message::Results(one), Message::Results(other)) => one.results == other.results,
        (Message::User(_) | Message::Assistant(_) | Message::Results(_), _) => false,
    }
}

/// Returns the content of a message as JSON, the same for equal messages. Providers get it in their own forms.
fn sent_text(message: &Message) -> String {
    let value = match message {
        Message::User(user) => json!({ "user": user.content }),
        Message::Assistant(reply) => json!({ "assistant": reply.blocks }),
        Message::Results(results) => {
            let results = results
                .results
                .iter()
                .map(|result| json!({ "call": result.call_id, "content": result.content }));
            json!({ "results": results.collect::<Vec<_>>() })
        }
    };
    value.to_string()
}

#[cfg(test)]
mod tests {
    use crow_core::{
        ids::MessageId,
        message::{Block, UserMessage},
    };

    use super::*;

    fn conversation(length: usize) -> Vec<Arc<Message>> {
        let message = |number: usize| {
            let (id, content) = (MessageId::new(format!("m{number}")), vec![Block::text("go on")]);
            Arc::new(Message::User(UserMessage { id, content }))
        };
        (0..length).map(message).collect()
    }

    #[test]
    fn messages_are_compared_only_after_the_conversation_changed() {
        let conversation = conversation(1_000);
        let (mut sent, mut compared) = (SentMessages::default(), 0);
        let mut count = |one: &Arc<Message>, other: &Arc<Message>| {
            compared += 1;
            is_same(one, other)
        };
        for length in 1..=conversation.len() {
            assert_eq!(sent.replace(&conversation[..length], &mut count), None);
        }
        sent.expect_changes();
        assert_eq!(sent.replace(&conversation, &mut count), None);
        assert_eq!(sent.messages(), conversation);
        assert_eq!(compared, conversation.len(), "each message once, after the change");
    }

    #[test]
    fn a_shortened_conversation_differs_where_it_ends() {
        let conversation = conversation(3);
        let mut sent = SentMessages::default();
        assert_eq!(sent.replace(&conversation, is_same), None);
        sent.expect_changes();
        let difference = sent.replace(&conversation[..2], is_same).unwrap();
        assert_eq!((difference.message, difference.after.as_str()), (2, ""));
        assert_eq!(sent.messages(), &conversation[..2]);
    }
}
