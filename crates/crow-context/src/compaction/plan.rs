//! When a conversation is compacted, and which messages are kept, masked and left out.
//!
//! Messages form groups: a message of the user alone, a reply with its results. A conversation is only cut between
//! groups, so that every result keeps its call. Sizes are those of a [`TokenCounter`]; a masked output counts as its
//! placeholder.

use std::{collections::HashSet, ops::Range, sync::Arc};

use crow_core::{
    history::is_user_input,
    ids::{CallId, MessageId},
    message::{AssistantMessage, Message, ResultMessage},
};

use crate::TokenCounter;

/// Tokens that are reserved for the reply at least, in a window that is large enough.
const REPLY_RESERVE: u64 = 16_000;
/// Maximum length of what is kept whole: the last steps, and the user's messages.
const KEPT_MOST: u64 = 20_000;
/// Maximum length of a summary.
const SUMMARY_MOST: u64 = 6_000;
/// Minimum length that a summary may have, in a window however small.
const SUMMARY_LEAST: u64 = 400;

/// When a conversation is compacted, and how long its parts may be afterwards. All numbers are tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowLimits {
    /// The window of the model: input and output together.
    pub window: u64,
    /// A request of this length is compacted first.
    pub trigger: u64,
    /// A compacted request should not be longer.
    pub target: u64,
    /// The last steps that are kept whole.
    pub tail: u64,
    /// The user's messages before them that are kept.
    pub user_messages: u64,
    /// The summary.
    pub summary: u64,
}

impl WindowLimits {
    /// Derives the limits from a window and the longest reply of the model.
    ///
    /// The reserve for the reply is at most a quarter of the window, and 4 % are left for the error of estimates.
    pub fn new(window: u64, max_output: Option<u64>) -> Self {
        let reserve = max_output.unwrap_or(0).max(REPLY_RESERVE).min(window / 4);
        let trigger = (window - reserve - window / 25).min(window / 100 * 85);
        Self {
            window,
            trigger,
            target: trigger / 100 * 60,
            tail: KEPT_MOST.min(trigger / 4),
            user_messages: KEPT_MOST.min(trigger / 5),
            summary: (trigger / 8).clamp(SUMMARY_LEAST, SUMMARY_MOST),
        }
    }

    /// Derives the limits of a compaction that the user asks for: the conversation becomes much shorter than it is,
    /// however large the window. `request` are the tokens of the next request.
    pub fn on_request(request: u64, window: Option<u64>) -> Self {
        let scale = window.map_or(request, |window| window.min(request));
        // A summary is asked for in the conversation itself, which needs some room after it.
        Self { window: window.unwrap_or(request.saturating_mul(2)), ..Self::new(scale, None) }
    }

    /// Returns true if a request of this length is compacted first.
    pub fn is_due(&self, request: u64) -> bool {
        request >= self.trigger
    }
}

/// Model calls between two compactions that count as progress.
const PROGRESS_CALLS: u32 = 3;
/// Growth of the request since the last compaction that counts as progress, in percent.
const PROGRESS_GROWTH: u64 = 20;
/// Compactions in a row without progress before the next one has to wait for progress.
const FRUITLESS_MOST: u32 = 2;

/// Counts compactions in a row that were followed neither by some model calls nor by some growth before the next one:
/// the rest of the conversation alone fills the window.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cooldown {
    last: Option<LastCompaction>,
    fruitless: u32,
}

#[derive(Debug, Clone, Copy)]
struct LastCompaction {
    /// Model calls since.
    calls: u32,
    /// Tokens of the request after it.
    tokens_after: u64,
}

impl LastCompaction {
    /// Returns true if there were some model calls or some growth of the request since.
    fn was_followed_by_progress(&self, tokens: u64) -> bool {
        let grown = self.tokens_after.saturating_mul(100 + PROGRESS_GROWTH) / 100;
        self.calls >= PROGRESS_CALLS || tokens >= grown
    }
}

impl Cooldown {
    /// Records an answered model call.
    pub fn on_model_call(&mut self) {
        if let Some(last) = &mut self.last {
            last.calls = last.calls.saturating_add(1);
        }
    }

    /// Records a compaction, with the tokens of the request before and after; the same number for one that failed.
    pub fn on_compaction(&mut self, tokens_before: u64, tokens_after: u64) {
        let is_fruitless =
            self.last.is_some_and(|last| !last.was_followed_by_progress(tokens_before));
        self.fruitless = if is_fruitless { self.fruitless + 1 } else { 0 };
        self.last = Some(LastCompaction { calls: 0, tokens_after });
    }

    /// Returns true if a request of this length may be compacted: the last compactions helped, or there was some
    /// progress since.
    pub fn permits(&self, tokens: u64) -> bool {
        self.fruitless < FRUITLESS_MOST
            || self.last.is_some_and(|last| last.was_followed_by_progress(tokens))
    }
}

/// Tokens of the placeholder that replaces an output, with the id of its call.
const PLACEHOLDER: u64 = 40;
/// Tokens of the excerpt that stays of an output that the model has not seen: of 2,000 characters, whatever they are.
const EXCERPT: u64 = 1_200;
/// Outputs below this are not worth masking.
const MASKED_LEAST: u64 = 80;
/// The newest outputs that masking leaves alone, in tokens, in a window that is large enough.
const PROTECTED_MOST: u64 = 40_000;

/// Plan of a compaction: the messages that are kept, masked and left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionPlan {
    /// The first message of the part that is kept whole.
    pub first_kept: MessageId,
    /// Messages of the user before it that are kept.
    pub kept: Vec<MessageId>,
    /// Calls whose outputs are replaced by placeholders.
    pub masked: Vec<CallId>,
    /// Number of messages before the part that is kept whole: the summary is of these.
    pub cut: usize,
    /// Tokens of the messages afterwards, without a summary.
    pub tokens: u64,
}

/// How much a compaction with a summary keeps. Each rung of the ladder keeps less than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionRung {
    /// The last steps whole, the user's messages.
    Full,
    /// Few steps, with all outputs masked but the newest.
    Tight,
    /// The last step alone with excerpts of its outputs, the user's first and last message.
    Least,
}

impl CompactionRung {
    /// All rungs, in the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::Full, Self::Tight, Self::Least];
}

/// A result with its call.
pub(crate) struct AnsweredCall<'a> {
    /// Index of the message.
    index: usize,
    pub(crate) result: &'a ResultMessage,
    /// The arguments of the call, if the reply is among the messages.
    arguments: Option<String>,
    pub(crate) tokens: u64,
}

/// Plans to replace old outputs by placeholders and to keep every message. Returns `None` if that does not make the request
/// short enough. `fixed` are the tokens of system prompt and tools.
///
/// Outputs of calls that were made again later go first, then all others but errors and the newest ones.
pub fn plan_masking(
    messages: &[Arc<Message>],
    counter: &dyn TokenCounter,
    fixed: u64,
    limits: &WindowLimits,
) -> Option<CompactionPlan> {
    let first_kept = messages.first()?.id().clone();
    let total: u64 = messages.iter().map(|message| counter.message(message)).sum();
    let calls = answered_calls(messages, counter);
    let protected = PROTECTED_MOST.min(limits.target / 3);
    // 1) Candidates: outputs before the protected newest ones. The model has not seen those of the last reply.
    let last_reply =
        messages.iter().rposition(|message| matches!(message.as_ref(), Message::Assistant(_)));
    let mut newest = 0;
    let mut candidates: Vec<&AnsweredCall<'_>> = calls
        .iter()
        .rev()
        .filter(|call| {
            newest += call.tokens;
            newest > protected
                && Some(call.index) < last_reply
                && !call.result.is_error
                && call.tokens >= MASKED_LEAST
        })
        .collect();
    candidates.reverse();
    // 2) Superseded outputs alone, or all of them.
    let superseded = superseded(&calls);
    let is_superseded = |call: &&&AnsweredCall<'_>| superseded.contains(&call.result.call_id);
    let only_superseded: Vec<_> = candidates.iter().filter(is_superseded).copied().collect();
    [only_superseded, candidates].into_iter().find_map(|chosen| {
        let saved: u64 = chosen.iter().map(|call| call.tokens.saturating_sub(PLACEHOLDER)).sum();
        let tokens = total.saturating_sub(saved);
        (!chosen.is_empty() && fixed + tokens <= limits.target).then(|| CompactionPlan {
            first_kept: first_kept.clone(),
            kept: Vec::new(),
            masked: chosen.iter().map(|call| call.result.call_id.clone()).collect(),
            cut: 0,
            tokens,
        })
    })
}

/// Plans to keep the last steps and the user's messages, and to replace the rest by a summary. Returns `None` if there
/// is no rest.
pub fn plan_summary(
    messages: &[Arc<Message>],
    counter: &dyn TokenCounter,
    limits: &WindowLimits,
    rung: CompactionRung,
) -> Option<CompactionPlan> {
    let (tail_limit, user_limit) = match rung {
        CompactionRung::Full => (limits.tail, limits.user_messages),
        CompactionRung::Tight => (limits.tail / 4, limits.user_messages / 2),
        CompactionRung::Least => (0, 0),
    };
    let masks_old = rung != CompactionRung::Full;
    let masks_last = rung == CompactionRung::Least;
    // 1) The last groups that fit, at least one.
    let groups = groups(messages);
    let last_group = groups.last()?.clone();
    let mut masked = Vec::new();
    let mut tail_tokens = 0;
    let mut cut = messages.len();
    for group in groups.iter().rev() {
        let is_last = *group == last_group;
        let masks = if is_last { masks_last } else { masks_old };
        let mut group_masked = Vec::new();
        let mut tokens = 0;
        for message in &messages[group.clone()] {
            tokens += counter.message(message);
            if masks && let Message::Results(results) = message.as_ref() {
                for result in &results.results {
                    let size = counter.result(result);
                    let rest = if is_last { EXCERPT } else { PLACEHOLDER };
                    if size >= MASKED_LEAST.max(rest) {
                        tokens = tokens.saturating_sub(size - rest);
                        group_masked.push(result.call_id.clone());
                    }
                }
            }
        }
        if !is_last && tail_tokens + tokens > tail_limit {
            break;
        }
        tail_tokens += tokens;
        cut = group.start;
        masked.extend(group_masked);
    }
    if cut == 0 {
        return None;
    }
    // 2) The user's messages before them: the first one, which has the instructions of the project, then the newest.
    let inputs: Vec<&Arc<Message>> =
        messages[..cut].iter().filter(|message| is_user_input(message)).collect();
    let mut kept = Vec::new();
    let mut user_tokens = 0;
    if let Some((first, rest)) = inputs.split_first() {
        kept.push(first.id().clone());
        user_tokens += counter.message(first);
        let mut newest = Vec::new();
        for (age, message) in rest.iter().rev().enumerate() {
            let tokens = counter.message(message);
            if age > 0 && user_tokens + tokens > user_limit {
                break;
            }
            user_tokens += tokens;
            newest.push(message.id().clone());
        }
        kept.extend(newest.into_iter().rev());
    }
    if kept.len() == cut && masked.is_empty() {
        return None;
    }
    Some(CompactionPlan {
        first_kept: messages[cut].id().clone(),
        kept,
        masked,
        cut,
        tokens: tail_tokens + user_tokens,
    })
}

/// Returns the groups of messages that must not be cut: a message of the user alone, a reply with its results.
pub(crate) fn groups(messages: &[Arc<Message>]) -> Vec<Range<usize>> {
    let starts: Vec<usize> = messages
        .iter()
        .enumerate()
        .filter(|(_, message)| !matches!(message.as_ref(), Message::Results(_)))
        .map(|(index, _)| index)
        .collect();
    let ends = starts.iter().skip(1).copied().chain([messages.len()]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
}

/// Returns the results with their calls, in order.
pub(crate) fn answered_calls<'a>(
    messages: &'a [Arc<Message>],
    counter: &dyn TokenCounter,
) -> Vec<AnsweredCall<'a>> {
    let mut calls = Vec::new();
    let mut reply: Option<&AssistantMessage> = None;
    for (index, message) in messages.iter().enumerate() {
        match message.as_ref() {
            Message::User(_) => {}
            Message::Assistant(message) => reply = Some(message),
            Message::Results(results) => {
                for result in &results.results {
                    let call = reply
                        .and_then(|reply| reply.calls().find(|call| call.id == result.call_id));
                    calls.push(AnsweredCall {
                        index,
                        result,
                        arguments: call.map(|call| call.arguments.to_object().to_string()),
                        tokens: counter.result(result),
                    });
                }
            }
        }
    }
    calls
}

/// Returns the calls that were made again later, with the same tool and arguments.
pub(crate) fn superseded(calls: &[AnsweredCall<'_>]) -> HashSet<CallId> {
    let mut later: HashSet<(&str, &str)> = HashSet::new();
    let mut superseded = HashSet::new();
    for call in calls.iter().rev() {
        let Some(arguments) = &call.arguments else { continue };
        debug_assert!(call.index > 0, "a result follows its call");
        if !later.insert((call.result.tool.as_str(), arguments.as_str())) {
            superseded.insert(call.result.call_id.clone());
        }
    }
    superseded
}
