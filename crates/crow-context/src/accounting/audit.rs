//! The fold of a session's log into an account of its requests, with the cache hits and misses of each.

use std::{collections::HashSet, fmt, sync::Arc, time::Duration};

use crow_core::{
    event::{AgentEvent, CompactionReport, Envelope, RequestPrefix},
    history::{History, HistoryError},
    ids::{CallId, MessageId, ReplyId},
    message::Message,
    model::ModelRef,
    usage::TokenUsage,
};
use jiff::Timestamp;

use super::{
    sent_messages::{PrefixDifference, SentMessages, is_same},
    shares::{ContextUsage, LastRequest},
};
use crate::TokenCounter;

/// An account of the requests of one agent's session, folded from its log.
#[derive(Debug, Default)]
pub struct ContextAudit {
    history: History,
    /// Messages whose first block is a preface.
    prefaced: HashSet<MessageId>,
    requests: Vec<RequestRecord>,
    compactions: Vec<CompactionRecord>,
    /// The messages of the last request.
    sent: SentMessages,
    /// A reply whose usage is not known yet.
    reply: Option<AnsweredRequest>,
    last: Option<LastReply>,
    /// What changed the conversation since the last request.
    change: Option<CacheMissCause>,
    /// True once the provider reported that something was read from a cache or written to it.
    reports_cache: bool,
}

/// A request that was answered.
#[derive(Debug)]
struct AnsweredRequest {
    reply_id: ReplyId,
    model: ModelRef,
    time: Timestamp,
    difference: Option<PrefixDifference>,
    /// Time since the reply before.
    pause: Duration,
}

/// The last reply.
#[derive(Debug)]
struct LastReply {
    model: ModelRef,
    time: Timestamp,
    prefix: Option<RequestPrefix>,
    usage: TokenUsage,
    bytes: Option<u64>,
}

/// The kind of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// The model answered, and its reply is part of the conversation.
    Reply,
    /// A call beside the conversation, such as one for a summary, or an attempt that failed.
    Other,
}

/// A model call with what became of its cached prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRecord {
    /// Number of the event with its usage.
    pub seq: Option<u64>,
    /// When it was answered.
    pub time: Timestamp,
    /// Its kind.
    pub kind: RequestKind,
    /// The model that answered; `None` if the call failed.
    pub model: Option<ModelRef>,
    /// Number of messages that it sent; 0 if it was beside the conversation.
    pub messages: usize,
    /// Its tokens.
    pub usage: TokenUsage,
    /// True if the tokens are estimated.
    pub estimated: bool,
    /// The length of its body in bytes, if the log tells it.
    pub bytes: Option<u64>,
    /// What became of the prefix that it shares with the request before.
    pub cache: CacheOutcome,
    /// The first difference to the messages of the request before, if those are not all sent again unchanged.
    pub difference: Option<PrefixDifference>,
}

/// A compaction, and what it left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionRecord {
    /// Number of its event.
    pub seq: Option<u64>,
    /// When it happened.
    pub time: Timestamp,
    /// Why, and how many tokens a request had before and after.
    pub report: Option<CompactionReport>,
    /// Number of messages that a summary replaces.
    pub left_out: usize,
    /// Calls whose outputs are replaced by placeholders.
    pub masked: Vec<CallId>,
    /// The summary; empty if there is none.
    pub summary: String,
}

impl ContextAudit {
    /// Makes an account without requests.
    pub fn new() -> Self {
        Self::default()
    }

    /// Folds the lines of a session's log.
    pub fn from_log<'a>(
        lines: impl IntoIterator<Item = &'a Envelope>,
    ) -> Result<Self, HistoryError> {
        let mut audit = Self::new();
        for line in lines {
            audit.apply(line)?;
        }
        Ok(audit)
    }

    /// Applies one event of the session. Those of other sessions must be left out.
    #[expect(clippy::wildcard_enum_match_arm, reason = "most events are no part of requests")]
    pub fn apply(&mut self, line: &Envelope) -> Result<(), HistoryError> {
        self.history.check_next(&line.event)?;
        match &line.event {
            AgentEvent::UserInput { message_id, context: Some(_), .. } => {
                self.prefaced.insert(message_id.clone());
            }
            // The messages before a reply are those of its request.
            AgentEvent::Reply { reply_id, origin, .. } => {
                let difference = self.sent.replace(messages_of(&self.history), is_same);
                let pause = self.last.as_ref().map_or(Duration::ZERO, |last| {
                    line.time.duration_since(last.time).unsigned_abs()
                });
                self.reply = Some(AnsweredRequest {
                    reply_id: reply_id.clone(),
                    model: ModelRef {
                        provider: origin.provider.clone(),
                        model: origin.model.clone(),
                    },
                    time: line.time,
                    difference,
                    pause,
                });
            }
            AgentEvent::Compaction { .. } => self.record_compaction(line),
            AgentEvent::Rewind { .. } => {
                self.change = Some(CacheMissCause::Rewind);
                self.sent.expect_changes();
            }
            _ => {}
        }
        self.history.apply(line)?;
        if let AgentEvent::Usage { reply_id, usage, estimated, request_bytes, .. } = &line.event {
            self.record_request(line, reply_id, (*usage, *estimated), *request_bytes);
        }
        Ok(())
    }

    /// Returns what fills the window, with the estimates of this counter.
    pub fn usage(&self, counter: &dyn TokenCounter) -> ContextUsage {
        let last = self.last.as_ref().map_or(LastRequest::default(), |last| LastRequest {
            // After a compaction or rewind, the part that the provider counted is another one.
            messages: if self.change.is_some() { 0 } else { self.sent.messages().len() },
            input_tokens: if self.change.is_some() { 0 } else { last.usage.input_tokens },
            cached: if self.reports_cache && self.change.is_none() {
                last.usage.input_tokens
            } else {
                0
            },
            bytes: None,
        });
        // While calls are open, those before them are the whole of what was sent.
        let messages = self.history.messages().unwrap_or(self.sent.messages());
        let prefix = self.history.request_prefix();
        ContextUsage::new(prefix, messages, &self.prefaced, counter, last)
    }

    /// Folds the lines of a session's log up to the answer to a request, by its number among [`requests`](Self::requests),
    /// counted from 1. The account has fewer requests if the log has.
    pub fn until_request<'a>(
        lines: impl IntoIterator<Item = &'a Envelope>,
        number: usize,
    ) -> Result<Self, HistoryError> {
        let mut audit = Self::new();
        for line in lines {
            if audit.requests.len() >= number {
                break;
            }
            audit.apply(line)?;
        }
        Ok(audit)
    }

    /// Divides the last request that was answered among the owners of its parts. Their tokens add up to what the provider
    /// counted, and what it read from its cache is the beginning. Their bytes and those of the format add up to what was
    /// sent. None if no request was answered.
    pub fn last_request(&self, counter: &dyn TokenCounter) -> Option<ContextUsage> {
        let last = self.last.as_ref()?;
        let request = LastRequest {
            messages: self.sent.messages().len(),
            input_tokens: last.usage.input_tokens,
            cached: last.usage.cache_read_tokens,
            bytes: last.bytes,
        };
        let prefix = last.prefix.as_ref();
        Some(ContextUsage::new(prefix, self.sent.messages(), &self.prefaced, counter, request))
    }

    /// Returns all model calls, in order.
    pub fn requests(&self) -> &[RequestRecord] {
        &self.requests
    }

    /// Returns all compactions, in order. Those that a rewind removed are among them.
    pub fn compactions(&self) -> &[CompactionRecord] {
        &self.compactions
    }

    /// Returns true if the provider reported that something was read from a cache or written to it.
    pub fn reports_cache(&self) -> bool {
        self.reports_cache
    }

    fn record_request(
        &mut self,
        line: &Envelope,
        reply_id: &ReplyId,
        (usage, estimated): (TokenUsage, bool),
        bytes: Option<u64>,
    ) {
        self.reports_cache |= usage.cache_read_tokens + usage.cache_write_tokens > 0;
        let seq = line.seq;
        let Some(reply) = self.reply.take_if(|reply| reply.reply_id == *reply_id) else {
            self.requests.push(RequestRecord {
                seq,
                time: line.time,
                kind: RequestKind::Other,
                model: None,
                messages: 0,
                usage,
                estimated,
                bytes,
                cache: CacheOutcome::NotReported,
                difference: None,
            });
            return;
        };
        let prefix = self.history.request_prefix().cloned();
        let cache = self.cache_outcome(&reply, prefix.as_ref(), &usage);
        self.change = None;
        let (model, time) = (reply.model.clone(), reply.time);
        self.last = Some(LastReply { model, time, prefix, usage, bytes });
        self.requests.push(RequestRecord {
            seq,
            time: reply.time,
            kind: RequestKind::Reply,
            model: Some(reply.model),
            messages: self.sent.messages().len(),
            usage,
            estimated,
            bytes,
            cache,
            difference: reply.difference,
        });
    }

    /// Compares what the provider read from its cache with what the request before had sent.
    fn cache_outcome(
        &self,
        reply: &AnsweredRequest,
        prefix: Option<&RequestPrefix>,
        usage: &TokenUsage,
    ) -> CacheOutcome {
        let Some(before) = &self.last else { return CacheOutcome::First };
        if !self.reports_cache {
            return CacheOutcome::NotReported;
        }
        let lost = before.usage.input_tokens.saturating_sub(usage.cache_read_tokens);
        if !is_miss(lost, before.usage.input_tokens) {
            return CacheOutcome::Hit;
        }
        let changed_parts = prefix.zip(before.prefix.as_ref());
        let parts = changed_parts.map(|(now, then)| now.differences(then)).unwrap_or_default();
        let cause = if before.model != reply.model {
            CacheMissCause::ModelSwitch { before: before.model.clone() }
        } else if let Some(change) = &self.change {
            change.clone()
        } else if !parts.is_empty() {
            CacheMissCause::PrefixChanged { parts }
        } else if reply.difference.is_some() {
            CacheMissCause::MessagesChanged
        } else if reply.pause >= CACHE_LIFETIME {
            CacheMissCause::Idle(reply.pause)
        } else {
            CacheMissCause::Provider
        };
        CacheOutcome::Miss { lost, cause }
    }

    fn record_compaction(&mut self, line: &Envelope) {
        let AgentEvent::Compaction { summary, first_kept, kept, masked, report } = &line.event
        else {
            return;
        };
        self.change = Some(CacheMissCause::Compaction);
        self.sent.expect_changes();
        let before =
            messages_of(&self.history).iter().position(|message| message.id() == first_kept);
        let before = before.expect("invariant: the history accepts the compaction");
        self.compactions.push(CompactionRecord {
            seq: line.seq,
            time: line.time,
            report: report.clone(),
            left_out: before.saturating_sub(kept.len()),
            masked: masked.clone(),
            summary: summary.clone(),
        });
    }
}

/// Returns the messages of a request, before an event that cannot come while calls are open.
fn messages_of(history: &History) -> &[Arc<Message>] {
    history.messages().expect("invariant: the history accepts the event, so no call is open")
}

/// Lost tokens below this are rounding: providers cache in blocks of up to 1,024 tokens.
const ROUNDING: u64 = 1_024;
/// Lost tokens below this part of the request before are rounding, too.
const ROUNDING_PART: u64 = 100;
/// Time after which the usual caches have expired.
const CACHE_LIFETIME: Duration = Duration::from_mins(5);

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

/// Returns true if a request lost more of the prefix before than rounding explains.
fn is_miss(lost: u64, before: u64) -> bool {
    lost > ROUNDING.max(before / ROUNDING_PART)
}
