//! Counts the tokens that the model sent in a turn.

use crow_console::{StreamedReplyProgress, words};
use crow_core::ids::ReplyId;

/// Bytes of text per token, for an estimate.
const BYTES_PER_TOKEN: u64 = 4;

/// The tokens received in a turn: those that the provider counted, and an estimate for the open reply.
#[derive(Debug, Default)]
pub(super) struct ReceivedTokens {
    reply: StreamedReplyProgress,
    /// Bytes of the open reply that are not counted yet.
    open_bytes: u64,
    counted: u64,
    /// True if a part of `counted` is an estimate.
    is_estimate: bool,
}

impl ReceivedTokens {
    /// Adds text of a reply. Text that was received before does not count again.
    pub(super) fn on_text(&mut self, reply_id: &ReplyId, offset: u64, delta: &str) {
        self.switch_to(reply_id);
        let fresh = self.reply.take_text(offset, delta).len() as u64;
        self.open_bytes = self.open_bytes.saturating_add(fresh);
    }

    /// Adds reasoning of a reply. Reasoning that was received before does not count again.
    pub(super) fn on_thinking(&mut self, reply_id: &ReplyId, offset: u64, delta: &str) {
        self.switch_to(reply_id);
        let fresh = self.reply.take_thinking(offset, delta).len() as u64;
        self.open_bytes = self.open_bytes.saturating_add(fresh);
    }

    /// Begins the open reply anew. The tokens of its first attempt were received nevertheless.
    pub(super) fn on_reset(&mut self) {
        self.count_open();
        self.reply.reset();
    }

    /// Adds the tokens of a model call, which replace the estimate for its reply.
    pub(super) fn on_usage(&mut self, output_tokens: u64, estimated: bool) {
        self.open_bytes = 0;
        self.counted = self.counted.saturating_add(output_tokens);
        self.is_estimate |= estimated;
    }

    /// Returns a text for the tokens; none if there are none. A number that is an estimate is marked with `~`.
    pub(super) fn text(&self, arrow: &str) -> Option<String> {
        let open = self.open_bytes.div_ceil(BYTES_PER_TOKEN);
        let total = self.counted.saturating_add(open);
        let mark = if self.is_estimate || open > 0 { "~" } else { "" };
        (total > 0).then(|| format!("{arrow} {mark}{} tokens", words::tokens(total)))
    }

    fn switch_to(&mut self, reply_id: &ReplyId) {
        if self.reply.switch_to(reply_id) {
            self.count_open();
        }
    }

    /// Counts the open reply by its estimate, because no other count follows.
    fn count_open(&mut self) {
        let open = std::mem::take(&mut self.open_bytes).div_ceil(BYTES_PER_TOKEN);
        self.counted = self.counted.saturating_add(open);
        self.is_estimate |= open > 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(act: impl FnOnce(&mut ReceivedTokens, &ReplyId)) -> Option<String> {
        let mut tokens = ReceivedTokens::default();
        act(&mut tokens, &ReplyId::new("r1"));
        tokens.text("↓")
    }

    #[test]
    fn the_open_reply_is_estimated_and_repeated_text_counts_once() {
        assert_eq!(text(|_, _| {}), None);
        let shown = text(|tokens, reply| {
            tokens.on_thinking(reply, 0, &"x".repeat(2000));
            tokens.on_text(reply, 0, &"x".repeat(2000));
            tokens.on_text(reply, 0, &"x".repeat(2800));
        });
        assert_eq!(shown.as_deref(), Some("↓ ~1.2k tokens"));
    }

    #[test]
    fn the_count_of_the_provider_replaces_the_estimate() {
        let shown = text(|tokens, reply| {
            tokens.on_text(reply, 0, &"x".repeat(4000));
            tokens.on_usage(700, false);
            tokens.on_text(reply, 0, &"x".repeat(4000));
        });
        assert_eq!(shown.as_deref(), Some("↓ 700 tokens"));
    }

    #[test]
    fn a_discarded_or_uncounted_reply_stays_an_estimate() {
        let discarded = text(|tokens, reply| {
            tokens.on_text(reply, 0, "12345678");
            tokens.on_usage(3, true);
            tokens.on_reset();
            tokens.on_text(reply, 0, "1234");
        });
        assert_eq!(discarded.as_deref(), Some("↓ ~4 tokens"));
        let uncounted = text(|tokens, reply| {
            tokens.on_text(reply, 0, "12345678");
            tokens.on_text(&ReplyId::new("r2"), 0, "1234");
        });
        assert_eq!(uncounted.as_deref(), Some("↓ ~3 tokens"));
    }
}
