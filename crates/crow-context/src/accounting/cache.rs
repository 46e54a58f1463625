//! Cache hits and misses of requests.

use std::{fmt, sync::Arc, time::Duration};

use crow_core::{message::Message, model::ModelRef};
use serde_json::json;

/// Lost tokens below this are rounding: providers cache in blocks of up to 1,024 tokens.
const ROUNDING: u64 = 1_024;
/// Lost tokens below this part of the request before are rounding, too.
const ROUNDING_PART: u64 = 100;
/// Time after which the usual caches have expired.
pub(super) const CACHE_LIFETIME: Duration = Duration::from_mins(5);
/// Characters of a text around the first difference.
const EXCERPT: usize = 40;

/// Cache hit or miss of the prefix that a request shares with the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheOutcome {
    /// There was no request before: nothing could be cached.
    First,
    /// The provider read it from its cache, but for rounding.
    Hit,
    /// The provider reports no caching.
    NotReported,
    /// The provider had to read some of it anew.
    Miss {
        /// Tokens of the request before that were not read from the cache.
        lost: u64,
        /// The reason, as far as the log tells.
        cause: CacheMissCause,
    },
}

/// The reason why a provider had to read a prefix anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheMissCause {
    /// The conversation was compacted.
    Compaction,
    /// The conversation was rewound.
    Rewind,
    /// Another model was asked.
    ModelSwitch {
        /// The model before.
        before: ModelRef,
    },
    /// The system prompt or tools changed.
    PrefixChanged {
        /// The parts that changed: `system prompt`, or names of tools.
        parts: Vec<String>,
    },
    /// Messages that had been sent changed, although nothing in the log says why. This is a fault of the loop.
    MessagesChanged,
    /// More time passed than caches usually last.
    Idle(Duration),
    /// The request was the same but for what was added: the provider dropped its cache, or another server answered.
    Provider,
}

impl fmt::Display for CacheMissCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compaction => f.write_str("the conversation was compacted"),
            Self::Rewind => f.write_str("the conversation was rewound"),
            Self::ModelSwitch { before } => write!(f, "the model changed, it was {before}"),
            Self::PrefixChanged { parts } => write!(f, "changed: {}", parts.join(", ")),
            Self::MessagesChanged => f.write_str("messages that had been sent changed"),
            Self::Idle(time) => write!(f, "{} minutes since the last request", time.as_secs() / 60),
            Self::Provider => f.write_str("the same prefix: the provider dropped its cache"),
        }
    }
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

/// Returns true if a request lost more of the prefix before than rounding explains.
pub(super) fn is_miss(lost: u64, before: u64) -> bool {
    lost > ROUNDING.max(before / ROUNDING_PART)
}

/// Compares the messages of two requests. Returns `None` if those before are a prefix of those after.
pub(super) fn first_difference(
    before: &[Arc<Message>],
    after: &[Arc<Message>],
) -> Option<PrefixDifference> {
    let is_same = |one: &Arc<Message>, other: &Arc<Message>| {
        Arc::ptr_eq(one, other) || has_same_content(one, other)
    };
    let message = before.iter().enumerate().position(|(index, message)| {
        after.get(index).is_none_or(|other| !is_same(message, other))
    })?;
    let before = sent_text(&before[message]);
    let after = after.get(message).map_or(String::new(), |message| sent_text(message));
    let byte = before.bytes().zip(after.bytes()).take_while(|(one, other)| one == other).count();
    let byte = before.floor_char_boundary(byte);
    let excerpt = |text: &str| text[byte.min(text.len())..].chars().take(EXCERPT).collect();
    Some(PrefixDifference { message, byte, before: excerpt(&before), after: excerpt(&after) })
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
