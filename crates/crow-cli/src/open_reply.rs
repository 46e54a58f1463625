//! How far the open reply is known.

use crow_core::{
    ids::ReplyId,
    message::{ReplyBlock, ReplyContent},
};

/// One text of a reply that comes in deltas: how many bytes of it are known.
///
/// A delta may come twice, or be missing until the whole text comes: each byte is passed on once, in order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReceivedText(u64);

impl ReceivedText {
    /// Takes a delta and returns the part of it that is new. Behind a gap nothing is new.
    pub(crate) fn take<'a>(&mut self, offset: u64, delta: &'a str) -> &'a str {
        let Some(known) = self.0.checked_sub(offset) else { return "" };
        let fresh = usize::try_from(known).ok().and_then(|known| delta.get(known..)).unwrap_or("");
        self.0 += fresh.len() as u64;
        fresh
    }

    /// Returns whether anything is known.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// How far the texts of the open reply are known.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConsoleOpenReply {
    id: Option<ReplyId>,
    pub(crate) text: ReceivedText,
    pub(crate) thinking: ReceivedText,
}

impl ConsoleOpenReply {
    /// Turns to the reply `id`; returns whether it is another than before.
    pub(crate) fn turn_to(&mut self, id: &ReplyId) -> bool {
        if self.id.as_ref() == Some(id) {
            return false;
        }
        *self = Self { id: Some(id.clone()), ..Self::default() };
        true
    }

    /// What came is void.
    pub(crate) fn reset(&mut self) {
        (self.text, self.thinking) = (ReceivedText::default(), ReceivedText::default());
    }
}

/// Returns the text of a reply's blocks as its deltas spell it.
pub(crate) fn text_of(blocks: &[ReplyBlock]) -> String {
    let texts = blocks.iter().filter_map(|block| match &block.content {
        ReplyContent::Text { text } => Some(text.as_str()),
        ReplyContent::Thinking { .. } | ReplyContent::Call(_) | ReplyContent::Opaque => None,
    });
    texts.collect()
}

/// Returns the readable reasoning of a reply's blocks as its deltas spell it.
pub(crate) fn thinking_of(blocks: &[ReplyBlock]) -> String {
    let texts = blocks.iter().filter_map(|block| match &block.content {
        ReplyContent::Thinking { text } => Some(text.as_str()),
        ReplyContent::Text { .. } | ReplyContent::Call(_) | ReplyContent::Opaque => None,
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_new_once() {
        let mut received = ReceivedText::default();
        assert_eq!(received.take(0, "grü"), "grü");
        assert_eq!(received.take(0, "grün"), "n");
        assert_eq!(received.take(0, "gr"), "");
        assert_eq!(received.take(9, "lost"), "");
        assert_eq!(received.take(0, "grün ist lost"), " ist lost");
    }
}
