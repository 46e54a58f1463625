//! The JSON output of `trace`, `stats`, `ledger` and `wire`. The documentation of the types is the description in the JSON Schema.

use crow_app::WireRecord;
use crow_context::accounting::{ContextShare, ContextUsage, RequestRecord};
use crow_core::usage::TokenUsage;
use crow_telemetry::{TraceSpan, statistics::StatisticsRow};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::json::Version;

/// A piece of work of an agent, with its beginning, its end, and what it was part of.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SpanLine<'a> {
    v: Version,
    #[serde(rename = "type")]
    kind: SpanType,
    #[serde(flatten)]
    span: &'a TraceSpan,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SpanType {
    /// A span.
    Span,
}

impl<'a> SpanLine<'a> {
    pub(crate) fn new(span: &'a TraceSpan) -> Self {
        Self { v: Version, kind: SpanType::Span, span }
    }
}

/// A request to a model provider and its reply, as the wire log has them.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WireLine<'a> {
    v: Version,
    #[serde(rename = "type")]
    kind: WireType,
    #[serde(flatten)]
    record: &'a WireRecord,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum WireType {
    /// An exchange.
    WireExchange,
}

impl<'a> WireLine<'a> {
    pub(crate) fn new(record: &'a WireRecord) -> Self {
        Self { v: Version, kind: WireType::WireExchange, record }
    }
}

/// Sums over sessions.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StatisticsLine {
    v: Version,
    #[serde(rename = "type")]
    kind: StatisticsType,
    /// The day, model, project, agent or tool. None for the total.
    name: Option<String>,
    /// Number of sessions that the user began.
    sessions: u64,
    /// Number of runs.
    runs: u64,
    /// Number of runs that ended by themselves: neither stopped, failed, cancelled nor cut off.
    succeeded_runs: u64,
    /// Number of model calls.
    model_calls: u64,
    /// Number of tool calls.
    tool_calls: u64,
    /// Number of tool calls that failed, refused ones included.
    failed_tool_calls: u64,
    /// The tokens.
    usage: TokenUsage,
    /// The cost in US dollars, as far as prices are known.
    cost_usd: f64,
    /// True if the price of some model is unknown, so that the cost is higher.
    is_cost_partial: bool,
    /// Time of the runs, or, by model and tool, of the calls.
    time_ms: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum StatisticsType {
    /// A row of statistics.
    Statistics,
}

impl StatisticsLine {
    pub(crate) fn row(name: &str, row: &StatisticsRow) -> Self {
        Self { name: Some(name.to_owned()), ..Self::total(row) }
    }

    pub(crate) fn total(row: &StatisticsRow) -> Self {
        Self {
            v: Version,
            kind: StatisticsType::Statistics,
            name: None,
            sessions: row.sessions,
            runs: row.runs,
            succeeded_runs: row.succeeded_runs,
            model_calls: row.model_calls,
            tool_calls: row.tool_calls,
            failed_tool_calls: row.failed_tool_calls,
            usage: row.usage,
            cost_usd: row.cost_usd,
            is_cost_partial: row.is_cost_partial,
            time_ms: u64::try_from(row.time.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// A request, divided among the owners of its parts.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LedgerLine {
    v: Version,
    #[serde(rename = "type")]
    kind: LedgerType,
    /// The number of the request in the session, counted from 1.
    request: usize,
    /// When it was answered.
    time: Timestamp,
    /// The model that answered, as `provider/model`.
    model: Option<String>,
    /// Its tokens as the provider counted them.
    usage: TokenUsage,
    /// Its cost in US dollars, if the price of the model is known.
    cost_usd: Option<f64>,
    /// Length of its body in bytes, if the log tells it.
    bytes: Option<u64>,
    /// Bytes of the body that belong to no owner: the JSON around the contents, ids, and the parameters of the request.
    /// They have no tokens of their own, and cost nothing: services count the contents.
    format_bytes: Option<u64>,
    /// The owners with their parts of the input, in the order of the request. Their tokens add up to those of the input,
    /// their bytes and those of the format to those of the body.
    shares: Vec<LedgerShare>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum LedgerType {
    /// A request.
    Ledger,
}

/// The part of a request that belongs to one owner.
#[derive(Debug, Serialize, JsonSchema)]
struct LedgerShare {
    /// The owner: `system_prompt`, `tool_definitions`, `outputs` …
    owner: String,
    /// The tool, of calls and outputs.
    tool: Option<String>,
    /// Number of messages, calls or tools.
    count: usize,
    /// Its tokens.
    tokens: u64,
    /// Those of them that the provider read from its cache.
    cached: u64,
    /// Its bytes in the body, if the length of that is known.
    bytes: Option<u64>,
    /// Its cost in US dollars, if the price of the model is known.
    cost_usd: Option<f64>,
}

impl LedgerLine {
    /// `cost_of` returns the cost of a part of the input.
    pub(crate) fn new(
        number: usize,
        request: &RequestRecord,
        usage: &ContextUsage,
        cost_usd: Option<f64>,
        cost_of: impl Fn(&ContextShare) -> Option<f64>,
    ) -> Self {
        let shares = usage.shares.iter().map(|share| LedgerShare {
            owner: share.owner.kind().to_owned(),
            tool: share.owner.tool().map(str::to_owned),
            count: share.count,
            tokens: share.tokens,
            cached: share.cached,
            bytes: usage.format_bytes.map(|_| share.bytes),
            cost_usd: cost_of(share),
        });
        Self {
            v: Version,
            kind: LedgerType::Ledger,
            request: number,
            time: request.time,
            model: request.model.as_ref().map(ToString::to_string),
            usage: request.usage,
            cost_usd,
            bytes: request.bytes,
            format_bytes: usage.format_bytes,
            shares: shares.collect(),
        }
    }
}
