//! Progress of the reply that is being streamed.

use crow_core::{
    ids::ReplyId,
    message::{ReplyBlock, ReplyContent},
};

/// Number of bytes received of one text of a streamed reply.
///
/// A delta may be repeated, or be missing until the complete text arrives: each byte is passed on once, in order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReceivedText(u64);

impl ReceivedText {
    /// Takes a delta and returns its new part. A delta after a gap is ignored.
    pub(crate) fn take<'a>(&mut self, offset: u64, delta: &'a str) -> &'a str {
        let Some(received) = self.0.checked_sub(offset) else { return "" };
        let fresh =
            usize::try_from(received).ok().and_then(|received| delta.get(received..)).unwrap_or("");
        self.0 += fresh.len() as u64;
        fresh
    }

    /// Returns true if no bytes have been received.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Received bytes of the texts of the reply that is being streamed.
#[derive(Debug, Clone, Default)]
pub struct StreamedReplyProgress {
    id: Option<ReplyId>,
    pub(crate) text: ReceivedText,
    pub(crate) thinking: ReceivedText,
}

impl StreamedReplyProgress {
    /// Switches to the reply `id`. Returns true if it is not the current one, whose progress is then dropped.
    pub fn switch_to(&mut self, id: &ReplyId) -> bool {
        if self.id.as_ref() == Some(id) {
            return false;
        }
        *self = Self { id: Some(id.clone()), ..Self::default() };
        true
    }

    /// Takes a delta of the text and returns its new part.
    pub fn take_text<'a>(&mut self, offset: u64, delta: &'a str) -> &'a str {
        self.text.take(offset, delta)
    }

    /// Takes a delta of the reasoning and returns its new part.
    pub fn take_thinking<'a>(&mut self, offset: u64, delta: &'a str) -> &'a str {
        self.thinking.take(offset, delta)
    }

    /// Returns true if no text has been received.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Drops the progress of the current reply, which starts anew.
    pub fn reset(&mut self) {
        (self.text, self.thinking) = (ReceivedText::default(), ReceivedText::default());
    }
}

/// Returns the concatenated text of a reply's blocks, as its deltas add up to.
pub fn text_of(blocks: &[ReplyBlock]) -> String {
    let texts = blocks.iter().filter_map(|block| match &block.content {
        ReplyContent::Text { text } => Some(text.as_str()),
        ReplyContent::Thinking { .. } | ReplyContent::Call(_) | ReplyContent::Opaque => None,
    });
    texts.collect()
}

/// Returns the concatenated readable reasoning of a reply's blocks, as its deltas add up to.
pub fn thinking_of(blocks: &[ReplyBlock]) -> String {
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
