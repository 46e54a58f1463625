//! Strategies that shorten a conversation.

use std::{collections::HashSet, fmt, sync::Arc};

use crow_core::{
    history::{is_user_input, mask_outputs},
    ids::CallId,
    message::Message,
};

use crate::{
    TokenCounter,
    compaction::{answered_calls, groups, superseded},
};

/// Outputs below this many tokens are not worth a placeholder.
const MASKED_LEAST: u64 = 80;

/// The target of a pruning strategy.
#[derive(Clone, Copy)]
pub struct PruneTarget<'a> {
    /// Counts the tokens.
    pub counter: &'a dyn TokenCounter,
    /// The conversation should have at most this many tokens afterwards.
    pub tokens: u64,
    /// Number of the newest outputs that stay.
    pub kept_outputs: usize,
}

/// A way to shorten a conversation.
pub trait PruningStrategy: Send + Sync + fmt::Debug {
    /// Shortens the messages as far as needed, or as far as it can. Every result keeps its call, the last message stays,
    /// and a message that changes gets another id.
    fn prune(&self, messages: &mut Vec<Arc<Message>>, target: PruneTarget<'_>);
}

impl PruneTarget<'_> {
    /// Returns the tokens of a conversation.
    pub fn count(&self, messages: &[Arc<Message>]) -> u64 {
        messages.iter().map(|message| self.counter.message(message)).sum()
    }
}

impl fmt::Debug for PruneTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PruneTarget").field("tokens", &self.tokens).finish_non_exhaustive()
    }
}

/// Replaces outputs of calls that were made again later by placeholders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SupersededOutputs;

impl PruningStrategy for SupersededOutputs {
    fn prune(&self, messages: &mut Vec<Arc<Message>>, target: PruneTarget<'_>) {
        let calls = answered_calls(messages, target.counter);
        let superseded = superseded(&calls);
        if !superseded.is_empty() {
            mask(messages, &superseded);
        }
    }
}

/// Replaces old outputs by placeholders, the oldest first, until the conversation is short enough. Errors stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaskedOutputs;

impl PruningStrategy for MaskedOutputs {
    fn prune(&self, messages: &mut Vec<Arc<Message>>, target: PruneTarget<'_>) {
        let mut excess = target.count(messages).saturating_sub(target.tokens);
        let calls = answered_calls(messages, target.counter);
        let mut masked = HashSet::new();
        for call in calls.iter().take(calls.len().saturating_sub(target.kept_outputs)) {
            if excess == 0 {
                break;
            }
            if call.tokens >= MASKED_LEAST && !call.result.is_error {
                excess = excess.saturating_sub(call.tokens);
                masked.insert(call.result.call_id.clone());
            }
        }
        mask(messages, &masked);
    }
}

/// Leaves out old replies with their results, the oldest first, then old messages of the user. The first message of the
/// user and the last message stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldTurns;

impl PruningStrategy for OldTurns {
    fn prune(&self, messages: &mut Vec<Arc<Message>>, target: PruneTarget<'_>) {
        let mut excess = target.count(messages).saturating_sub(target.tokens);
        let groups = groups(messages);
        let Some((_, older)) = groups.split_last() else { return };
        let mut left_out = HashSet::new();
        for takes_input in [false, true] {
            let first_input = messages.iter().position(|message| is_user_input(message));
            for group in older {
                let is_input = is_user_input(&messages[group.start]);
                if excess == 0 || is_input != takes_input || Some(group.start) == first_input {
                    continue;
                }
                excess = excess.saturating_sub(target.count(&messages[group.clone()]));
                left_out.extend(group.clone());
            }
        }
        let mut index = 0;
        messages.retain(|_| {
            index += 1;
            !left_out.contains(&(index - 1))
        });
    }
}

/// Replaces the outputs of these calls by placeholders.
fn mask(messages: &mut [Arc<Message>], calls: &HashSet<CallId>) {
    for message in messages {
        *message = mask_outputs(message, |id| calls.contains(id));
    }
}
