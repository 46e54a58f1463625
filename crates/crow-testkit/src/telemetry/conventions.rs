//! Attributes and metrics of the OpenTelemetry conventions.
//!
//! The crate of the conventions has the names of version 1.41. Names that came later, in the repository that the conventions
//! for generative AI moved to, are written out, and so are those of Crow, which users build dashboards on.

#![expect(deprecated, reason = "the names of 1.41 are deprecated in favour of another repository")]

use opentelemetry_semantic_conventions::{attribute as names, metric as metrics, resource};

use Instrument::{Counter, Histogram};
use ValueType::{Flag, Float, Integer, Text, Texts};

/// The type of an attribute's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueType {
    Text,
    Integer,
    Float,
    Flag,
    Texts,
}

/// Type and permitted values of an attribute.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttributeRule {
    key: &'static str,
    pub(super) value_type: ValueType,
    /// The values that it may have; empty if any.
    pub(super) values: &'static [&'static str],
    /// True if it has words of users, models or tools.
    pub(super) is_content: bool,
}

impl AttributeRule {
    const fn new(key: &'static str, value_type: ValueType) -> Self {
        Self { key, value_type, values: &[], is_content: false }
    }

    const fn one_of(mut self, values: &'static [&'static str]) -> Self {
        self.values = values;
        self
    }

    const fn content(mut self) -> Self {
        self.is_content = true;
        self
    }
}

/// Returns what an attribute of a span, metric or log record must be; `None` if there is no such attribute.
pub(super) fn attribute_rule(key: &str) -> Option<&'static AttributeRule> {
    ATTRIBUTES.iter().find(|rule| rule.key == key)
}

const ATTRIBUTES: &[AttributeRule] = &[
    AttributeRule::new(names::ERROR_TYPE, Text),
    AttributeRule::new(names::SERVER_ADDRESS, Text),
    AttributeRule::new(names::SERVER_PORT, Integer),
    AttributeRule::new(names::GEN_AI_AGENT_NAME, Text),
    AttributeRule::new(names::GEN_AI_CONVERSATION_ID, Text),
    AttributeRule::new(names::GEN_AI_INPUT_MESSAGES, Text).content(),
    AttributeRule::new(names::GEN_AI_OPERATION_NAME, Text).one_of(&[
        "chat",
        "execute_tool",
        "invoke_agent",
        "invoke_workflow",
    ]),
    AttributeRule::new(names::GEN_AI_OUTPUT_MESSAGES, Text).content(),
    AttributeRule::new(names::GEN_AI_OUTPUT_TYPE, Text)
        .one_of(&["text", "json", "image", "speech"]),
    AttributeRule::new(names::GEN_AI_PROVIDER_NAME, Text),
    AttributeRule::new(names::GEN_AI_REQUEST_MODEL, Text),
    AttributeRule::new(names::GEN_AI_REQUEST_STREAM, Flag),
    AttributeRule::new(names::GEN_AI_RESPONSE_FINISH_REASONS, Texts),
    AttributeRule::new(names::GEN_AI_RESPONSE_ID, Text),
    AttributeRule::new(names::GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK, Float),
    AttributeRule::new(names::GEN_AI_TOKEN_TYPE, Text).one_of(&["input", "output"]),
    AttributeRule::new(names::GEN_AI_TOOL_CALL_ARGUMENTS, Text).content(),
    AttributeRule::new(names::GEN_AI_TOOL_CALL_ID, Text),
    AttributeRule::new(names::GEN_AI_TOOL_CALL_RESULT, Text).content(),
    AttributeRule::new(names::GEN_AI_TOOL_NAME, Text),
    AttributeRule::new(names::GEN_AI_TOOL_TYPE, Text).one_of(&[
        "function",
        "extension",
        "datastore",
    ]),
    AttributeRule::new(names::GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS, Integer),
    AttributeRule::new(names::GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS, Integer),
    AttributeRule::new(names::GEN_AI_USAGE_INPUT_TOKENS, Integer),
    AttributeRule::new(names::GEN_AI_USAGE_OUTPUT_TOKENS, Integer),
    AttributeRule::new(names::GEN_AI_USAGE_REASONING_OUTPUT_TOKENS, Integer),
    AttributeRule::new(names::GEN_AI_WORKFLOW_NAME, Text),
    AttributeRule::new(names::MCP_METHOD_NAME, Text).one_of(&["tools/call"]),
    // After 1.41.
    AttributeRule::new("gen_ai.conversation.compacted", Flag),
    AttributeRule::new("gen_ai.token.modality", Text),
    AttributeRule::new("gen_ai.usage.cache_write.input_tokens", Integer),
    // Of Crow.
    AttributeRule::new("crow.agent.role", Text).one_of(&["primary", "coagent", "subagent"]),
    AttributeRule::new("crow.checks.failed", Texts),
    AttributeRule::new("crow.checks.passed", Texts),
    AttributeRule::new("crow.compaction.tokens_after", Integer),
    AttributeRule::new("crow.compaction.tokens_before", Integer),
    AttributeRule::new("crow.cost.usd", Float),
    AttributeRule::new("crow.handoff.from", Text),
    AttributeRule::new("crow.handoff.to", Text),
    AttributeRule::new("crow.permission.answer", Text),
    AttributeRule::new("crow.prompt", Text).content(),
    AttributeRule::new("crow.question.answered", Flag),
    AttributeRule::new("crow.retries", Integer),
    AttributeRule::new("crow.review.reviewer", Text),
    AttributeRule::new("crow.review.verdict", Text),
    AttributeRule::new("crow.round", Integer),
    AttributeRule::new("crow.run.id", Text),
    AttributeRule::new("crow.run.input_tokens", Integer),
    AttributeRule::new("crow.run.model_calls", Integer),
    AttributeRule::new("crow.run.output_tokens", Integer),
    AttributeRule::new("crow.run.result", Text).one_of(&[
        "completed",
        "needs_input",
        "stopped",
        "cancelled",
        "failed",
        "unfinished",
    ]),
    AttributeRule::new("crow.run.rounds", Integer),
    AttributeRule::new("crow.run.tool_calls", Integer),
    AttributeRule::new("crow.run.user_wait_ms", Integer),
    AttributeRule::new("crow.run.verdict", Text),
    AttributeRule::new("crow.run.verified", Flag),
    AttributeRule::new("crow.session.root_id", Text),
    AttributeRule::new("crow.snapshot", Text),
    AttributeRule::new("crow.time_to_first_chunk", Float),
    AttributeRule::new("crow.tool.denied", Flag),
    AttributeRule::new("crow.tool.files_changed", Integer),
    AttributeRule::new("crow.tool.lines_added", Integer),
    AttributeRule::new("crow.tool.lines_deleted", Integer),
    AttributeRule::new("crow.tool.output_bytes", Integer),
    AttributeRule::new("crow.tool.title", Text).content(),
    AttributeRule::new("crow.turn", Integer),
    AttributeRule::new("crow.turn.end", Text),
    AttributeRule::new("crow.turn.model_calls", Integer),
    AttributeRule::new("crow.turn.tool_calls", Integer),
    AttributeRule::new("crow.usage.estimated", Flag),
];

/// The attributes that every resource has, and their types.
pub(super) const RESOURCE: [(&str, ValueType); 8] = [
    (resource::SERVICE_NAME, Text),
    (resource::SERVICE_VERSION, Text),
    (resource::SERVICE_INSTANCE_ID, Text),
    (resource::HOST_ARCH, Text),
    (resource::OS_TYPE, Text),
    (resource::PROCESS_PID, Integer),
    (resource::TELEMETRY_SDK_LANGUAGE, Text),
    (resource::TELEMETRY_SDK_NAME, Text),
];

/// How a metric is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instrument {
    Counter,
    Histogram,
}

/// Instrument, unit and required attributes of a metric.
#[derive(Debug, Clone, Copy)]
pub(super) struct MetricRule {
    name: &'static str,
    pub(super) instrument: Instrument,
    pub(super) unit: &'static str,
    pub(super) required: &'static [&'static str],
}

/// Returns what a metric must be; `None` if there is no such metric.
pub(super) fn metric_rule(name: &str) -> Option<&'static MetricRule> {
    METRICS.iter().find(|rule| rule.name == name)
}

/// The attributes that each metric of model calls has.
const INFERENCE: &[&str] =
    &[names::GEN_AI_OPERATION_NAME, names::GEN_AI_PROVIDER_NAME, names::GEN_AI_REQUEST_MODEL];
const INFERENCE_BY_TYPE: &[&str] = &[
    names::GEN_AI_OPERATION_NAME,
    names::GEN_AI_PROVIDER_NAME,
    names::GEN_AI_REQUEST_MODEL,
    names::GEN_AI_TOKEN_TYPE,
];
const INFERENCE_BY_MODALITY: &[&str] = &[
    names::GEN_AI_OPERATION_NAME,
    names::GEN_AI_PROVIDER_NAME,
    names::GEN_AI_REQUEST_MODEL,
    "gen_ai.token.modality",
];

const fn metric(
    name: &'static str,
    instrument: Instrument,
    unit: &'static str,
    required: &'static [&'static str],
) -> MetricRule {
    MetricRule { name, instrument, unit, required }
}

const METRICS: &[MetricRule] = &[
    metric(metrics::GEN_AI_CLIENT_TOKEN_USAGE, Histogram, "{token}", INFERENCE_BY_TYPE),
    metric(metrics::GEN_AI_CLIENT_OPERATION_DURATION, Histogram, "s", INFERENCE),
    metric(metrics::GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK, Histogram, "s", INFERENCE),
    // After 1.41.
    metric("gen_ai.client.inference.duration", Histogram, "s", INFERENCE),
    metric("gen_ai.client.inference.time_to_first_chunk", Histogram, "s", INFERENCE),
    metric("gen_ai.client.inference.operation.input_tokens", Histogram, "{token}", INFERENCE),
    metric("gen_ai.client.inference.operation.output_tokens", Histogram, "{token}", INFERENCE),
    metric("gen_ai.client.inference.usage.input_tokens", Counter, "{token}", INFERENCE_BY_MODALITY),
    metric(
        "gen_ai.client.inference.usage.output_tokens",
        Counter,
        "{token}",
        INFERENCE_BY_MODALITY,
    ),
    metric(
        "gen_ai.client.inference.usage.cache_read.input_tokens",
        Counter,
        "{token}",
        INFERENCE_BY_MODALITY,
    ),
    metric(
        "gen_ai.client.inference.usage.cache_write.input_tokens",
        Counter,
        "{token}",
        INFERENCE_BY_MODALITY,
    ),
    metric(
        "gen_ai.client.inference.usage.reasoning.output_tokens",
        Counter,
        "{token}",
        INFERENCE_BY_MODALITY,
    ),
    metric("gen_ai.invoke_workflow.duration", Histogram, "s", &[names::GEN_AI_WORKFLOW_NAME]),
    metric("gen_ai.invoke_agent.duration", Histogram, "s", &[names::GEN_AI_AGENT_NAME]),
    metric("gen_ai.invoke_agent.inference_calls", Histogram, "{call}", &[names::GEN_AI_AGENT_NAME]),
    metric("gen_ai.invoke_agent.tool_calls", Histogram, "{call}", &[names::GEN_AI_AGENT_NAME]),
    metric("gen_ai.execute_tool.duration", Histogram, "s", &[names::GEN_AI_TOOL_NAME]),
    // Of Crow.
    metric("crow.runs", Counter, "{run}", &["crow.run.result"]),
];
