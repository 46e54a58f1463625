//! The JSON output of `sessions show --context`. The documentation of the types is the description in the JSON Schema.

use crow_context::accounting::{
    CacheMissCause, CacheOutcome, CompactionRecord, ContextUsage, PrefixDifference, RequestKind,
    RequestRecord,
};
use crow_core::{ids::SessionId, usage::TokenUsage};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::json::Version;

/// What fills the context window of a session: its next request, divided among the owners of its parts.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ContextLine {
    v: Version,
    #[serde(rename = "type")]
    kind: ContextType,
    /// The session.
    session_id: SessionId,
    /// The window of the model in tokens, if it is known.
    window: Option<u64>,
    /// The length in tokens at which a request is compacted first, if the window is known.
    compaction_at: Option<u64>,
    /// Tokens of the next request. Token numbers are estimates, scaled to what the provider counted last.
    tokens: u64,
    /// Those of them that the provider is likely to have in its cache.
    cached: u64,
    /// The owners with their shares, in the order of the request.
    shares: Vec<ShareEntry>,
    /// The outputs that take most, the largest first.
    largest: Vec<OutputEntry>,
}

/// A model call, and what became of the prefix that it shares with the one before.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ContextRequestLine {
    v: Version,
    #[serde(rename = "type")]
    kind: ContextRequestType,
    /// Number of the event with its usage.
    seq: Option<u64>,
    /// When it was answered.
    time: Timestamp,
    /// True if its reply is part of the conversation; a summary or a failed attempt is not.
    in_conversation: bool,
    /// The model that answered, if one did, as `provider/model`.
    model: Option<String>,
    /// Number of messages that were sent.
    messages: usize,
    /// Its tokens.
    usage: TokenUsage,
    /// True if the tokens are estimated.
    estimated: bool,
    /// What became of the cached prefix.
    cache: CacheWord,
    /// Tokens of the request before that the provider had to read anew; 0 but for a miss.
    lost: u64,
    /// The reason of a miss.
    cause: Option<CauseWord>,
    /// The reason of a miss in words.
    reason: Option<String>,
    /// The first difference to the messages of the request before, if not all of them are sent again unchanged.
    difference: Option<DifferenceEntry>,
}

/// A compaction, and what it left out.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ContextCompactionLine {
    v: Version,
    #[serde(rename = "type")]
    kind: ContextCompactionType,
    /// Number of its event.
    seq: Option<u64>,
    /// When it happened.
    time: Timestamp,
    /// Tokens of a request before, as estimated.
    tokens_before: Option<u64>,
    /// Tokens of a request afterwards, as estimated.
    tokens_after: Option<u64>,
    /// Number of messages that the summary replaces.
    left_out: usize,
    /// Calls whose outputs are replaced by placeholders.
    masked: Vec<String>,
    /// The summary; empty if there is none.
    summary: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ContextType {
    Context,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ContextRequestType {
    ContextRequest,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ContextCompactionType {
    ContextCompaction,
}

/// The part of a request that belongs to one owner.
#[derive(Debug, Serialize, JsonSchema)]
struct ShareEntry {
    /// The owner: `system_prompt`, `tool_definitions`, `preface`, `summary`, `user_messages`, `notices`, `replies`,
    /// `reasoning`, `calls` or `outputs`.
    owner: &'static str,
    /// The tool, of calls and outputs.
    tool: Option<String>,
    /// Number of messages, calls or tools.
    count: usize,
    /// Its tokens.
    tokens: u64,
    /// Those of its tokens that the provider is likely to have in its cache.
    cached: u64,
}

/// An output that takes much of the window.
#[derive(Debug, Serialize, JsonSchema)]
struct OutputEntry {
    /// The call.
    call_id: String,
    /// The tool.
    tool: String,
    /// Its tokens.
    tokens: u64,
}

/// The first difference between the messages of two requests in a row.
#[derive(Debug, Serialize, JsonSchema)]
struct DifferenceEntry {
    /// Index of the first message that differs.
    message: usize,
    /// The first byte that differs in it.
    byte: usize,
    /// The text from there in the request before.
    before: String,
    /// The text from there in this request.
    after: String,
}

/// What became of the cached prefix of a request.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CacheWord {
    /// There was no request before.
    First,
    /// It was read from the cache, but for rounding.
    Hit,
    /// The provider reports no caching.
    NotReported,
    /// Some of it had to be read anew.
    Miss,
}

/// Why a provider had to read a prefix anew.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CauseWord {
    /// The conversation was compacted.
    Compaction,
    /// The conversation was rewound.
    Rewind,
    /// Another model was asked.
    ModelSwitch,
    /// The system prompt or tools changed.
    PrefixChanged,
    /// Messages that had been sent changed without a reason in the log.
    MessagesChanged,
    /// More time passed than caches usually last.
    Idle,
    /// The provider dropped its cache.
    Provider,
}

impl ContextLine {
    pub(crate) fn new(session_id: &SessionId, usage: &ContextUsage) -> Self {
        let shares = usage.shares.iter().map(|share| ShareEntry {
            owner: share.owner.kind(),
            tool: share.owner.tool().map(str::to_owned),
            count: share.count,
            tokens: share.tokens,
            cached: share.cached,
        });
        let largest = usage.largest.iter().map(|output| OutputEntry {
            call_id: output.call_id.to_string(),
            tool: output.tool.clone(),
            tokens: output.tokens,
        });
        Self {
            v: Version,
            kind: ContextType::Context,
            session_id: session_id.clone(),
            window: usage.window,
            compaction_at: usage.compaction_at,
            tokens: usage.tokens,
            cached: usage.cached(),
            shares: shares.collect(),
            largest: largest.collect(),
        }
    }
}

impl ContextRequestLine {
    pub(crate) fn new(request: &RequestRecord) -> Self {
        let (cache, lost, cause) = match &request.cache {
            CacheOutcome::First => (CacheWord::First, 0, None),
            CacheOutcome::Hit => (CacheWord::Hit, 0, None),
            CacheOutcome::NotReported => (CacheWord::NotReported, 0, None),
            CacheOutcome::Miss { lost, cause } => (CacheWord::Miss, *lost, Some(cause)),
        };
        Self {
            v: Version,
            kind: ContextRequestType::ContextRequest,
            seq: request.seq,
            time: request.time,
            in_conversation: request.kind == RequestKind::Reply,
            model: request.model.as_ref().map(ToString::to_string),
            messages: request.messages,
            usage: request.usage,
            estimated: request.estimated,
            cache,
            lost,
            cause: cause.map(CauseWord::from),
            reason: cause.map(ToString::to_string),
            difference: request.difference.as_ref().map(DifferenceEntry::from),
        }
    }
}

impl ContextCompactionLine {
    pub(crate) fn new(compaction: &CompactionRecord) -> Self {
        let report = compaction.report.as_ref();
        Self {
            v: Version,
            kind: ContextCompactionType::ContextCompaction,
            seq: compaction.seq,
            time: compaction.time,
            tokens_before: report.map(|report| report.tokens_before),
            tokens_after: report.map(|report| report.tokens_after),
            left_out: compaction.left_out,
            masked: compaction.masked.iter().map(ToString::to_string).collect(),
            summary: compaction.summary.clone(),
        }
    }
}

impl From<&CacheMissCause> for CauseWord {
    fn from(cause: &CacheMissCause) -> Self {
        match cause {
            CacheMissCause::Compaction => Self::Compaction,
            CacheMissCause::Rewind => Self::Rewind,
            CacheMissCause::ModelSwitch { .. } => Self::ModelSwitch,
            CacheMissCause::PrefixChanged { .. } => Self::PrefixChanged,
            CacheMissCause::MessagesChanged => Self::MessagesChanged,
            CacheMissCause::Idle(_) => Self::Idle,
            CacheMissCause::Provider => Self::Provider,
        }
    }
}

impl From<&PrefixDifference> for DifferenceEntry {
    fn from(difference: &PrefixDifference) -> Self {
        let PrefixDifference { message, byte, before, after } = difference.clone();
        Self { message, byte, before, after }
    }
}
