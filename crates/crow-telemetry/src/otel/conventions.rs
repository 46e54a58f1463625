//! Spans by the semantic conventions of OpenTelemetry for generative AI.
//!
//! The conventions are in development. `Latest` follows the repository that they moved to after version 1.41; viewers often
//! still read the names of 1.41, which is what is sent unless `OTEL_SEMCONV_STABILITY_OPT_IN` says otherwise. Both differ in
//! few names. What they have no name for is called `crow.…`.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use crow_core::{
    event::AgentRole,
    ids::SnapshotId,
    model::{ModelRef, Price, StopReason},
};
use jiff::Timestamp;

use super::messages::{Attribute, OtelSpan, OtelSpanKind, OtelStatus, attribute};
use crate::{ModelCallWork, SpanOutcome, SpanWork, TraceSpan};

/// The version of the conventions for generative AI.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GenAiConventions {
    /// Version 1.41 of the semantic conventions.
    #[default]
    V1_41,
    /// The state of their own repository.
    Latest,
}

/// Capture of content: prompts, titles of calls and error messages, and for collectors the content of calls, if the spans have
/// it ([`TraceBuilder::with_content`](crate::TraceBuilder::with_content)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ContentCapture {
    /// Only names, numbers and kinds.
    #[default]
    LeftOut,
    /// Content too.
    Captured,
}

/// How spans become those of OpenTelemetry.
#[derive(Debug, Clone, Default)]
pub struct SpanEncoder {
    /// The names that are used.
    pub conventions: GenAiConventions,
    /// Capture of content.
    pub content: ContentCapture,
    /// Prices of models.
    pub prices: PriceTable,
}

/// Prices of models, as far as they are known. Clones share it, so that prices can be added when a model is first used.
#[derive(Debug, Clone, Default)]
pub struct PriceTable(Arc<RwLock<BTreeMap<ModelRef, Option<Price>>>>);

impl PriceTable {
    /// Makes an empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the price of a model; none if it has no known price.
    pub fn set(&self, model: ModelRef, price: Option<Price>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(model, price);
    }

    /// Returns true if a price was set, or that there is none.
    pub fn is_set(&self, model: &ModelRef) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains_key(model)
    }

    /// Returns the price of a model, if it is known.
    pub fn get(&self, model: &ModelRef) -> Option<Price> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(model).copied().flatten()
    }
}

/// The attributes of a span.
struct AttributeBuilder(Vec<Attribute>);

impl AttributeBuilder {
    fn add(&mut self, key: &str, value: impl Into<super::messages::Scalar>) {
        self.0.push(attribute(key, value));
    }

    fn add_some(&mut self, key: &str, value: Option<impl Into<super::messages::Scalar>>) {
        if let Some(value) = value {
            self.add(key, value);
        }
    }
}

impl SpanEncoder {
    /// Returns a span as it is sent.
    pub(crate) fn encode(&self, span: &TraceSpan) -> OtelSpan {
        let mut attributes = AttributeBuilder(Vec::with_capacity(16));
        let (name, kind) = self.describe(span, &mut attributes);
        attributes.add("gen_ai.conversation.id", span.session_id.as_str());
        if !matches!(span.work, SpanWork::Run(_)) {
            attributes.add("gen_ai.agent.name", span.agent.as_str());
            attributes.add("crow.agent.role", role_name(span.role));
        }
        attributes.add("crow.session.root_id", span.root_id.as_str());
        attributes.add("crow.round", span.round);
        let status = self.status(span, &mut attributes);
        OtelSpan {
            trace_id: span.trace_id.to_bytes().to_vec(),
            span_id: span.id.to_bytes().to_vec(),
            parent_span_id: span.parent.map(|id| id.to_bytes().to_vec()).unwrap_or_default(),
            name,
            kind: kind.into(),
            start_time_unix_nano: unix_nano(span.start),
            end_time_unix_nano: unix_nano(span.end),
            attributes: attributes.0,
            status,
            // The flag that the trace is sampled, as in a `traceparent`.
            flags: 1,
        }
    }

    /// Adds the attributes of the work, and returns the name and kind of the span.
    fn describe(&self, span: &TraceSpan, out: &mut AttributeBuilder) -> (String, OtelSpanKind) {
        let has_content = self.content == ContentCapture::Captured;
        match &span.work {
            SpanWork::Run(run) => {
                out.add("gen_ai.operation.name", "invoke_workflow");
                out.add("gen_ai.workflow.name", span.agent.as_str());
                out.add("crow.run.id", run.run_id.as_str());
                out.add("crow.run.result", run.result.as_str());
                out.add("crow.run.verified", run.verified);
                out.add("crow.run.rounds", run.rounds);
                out.add("crow.run.model_calls", run.model_calls);
                out.add("crow.run.tool_calls", run.tool_calls);
                out.add("crow.run.user_wait_ms", run.waited_ms);
                let usage = run.total_usage();
                out.add("crow.run.input_tokens", usage.input_tokens);
                out.add("crow.run.output_tokens", usage.output_tokens);
                let verdict = run.verdict.map(|verdict| format!("{verdict:?}").to_lowercase());
                out.add_some("crow.run.verdict", verdict);
                let costs = run
                    .usage
                    .iter()
                    .map(|(model, usage)| self.prices.get(model).map(|price| price.cost(usage)));
                out.add_some("crow.cost.usd", costs.sum::<Option<f64>>());
                out.add_some("crow.prompt", run.prompt.clone().filter(|_| has_content));
                (format!("invoke_workflow {}", span.agent), OtelSpanKind::Internal)
            }
            SpanWork::Turn(turn) => {
                out.add("gen_ai.operation.name", "invoke_agent");
                out.add("gen_ai.usage.input_tokens", turn.usage.input_tokens);
                out.add("gen_ai.usage.output_tokens", turn.usage.output_tokens);
                out.add("crow.turn", turn.turn);
                out.add_some("crow.turn.end", turn.end.clone());
                out.add("crow.turn.model_calls", turn.model_calls);
                out.add("crow.turn.tool_calls", turn.tool_calls);
                (format!("invoke_agent {}", span.agent), OtelSpanKind::Internal)
            }
            SpanWork::ModelCall(call) => {
                self.model_call(call, out);
                if let Some(content) = call.content.as_ref().filter(|_| has_content) {
                    out.add("gen_ai.input.messages", messages_json(&content.input));
                    let reason = call.stop.map_or("error", finish_reason);
                    let mut output = content.output.clone();
                    for message in &mut output {
                        message["finish_reason"] = reason.into();
                    }
                    out.add("gen_ai.output.messages", messages_json(&output));
                }
                (format!("chat {}", call.model.model), OtelSpanKind::Client)
            }
            SpanWork::ToolCall(call) => {
                out.add("gen_ai.operation.name", "execute_tool");
                out.add("gen_ai.tool.name", call.tool.as_str());
                out.add("gen_ai.tool.call.id", call.call_id.as_str());
                out.add("crow.tool.denied", call.denied);
                out.add("crow.tool.files_changed", call.files_changed);
                out.add("crow.tool.lines_added", call.additions);
                out.add("crow.tool.lines_deleted", call.deletions);
                out.add("crow.tool.output_bytes", call.output_bytes);
                let snapshot = call.snapshot.as_ref().map(SnapshotId::as_str);
                out.add_some("crow.snapshot", snapshot);
                let title = Some(call.title.clone()).filter(|_| has_content);
                out.add_some("crow.tool.title", title.filter(|title| !title.is_empty()));
                if let Some(content) = call.content.as_ref().filter(|_| has_content) {
                    let arguments = Some(content.arguments.as_str());
                    let arguments = arguments.filter(|arguments| !arguments.is_empty());
                    out.add_some("gen_ai.tool.call.arguments", arguments);
                    out.add("gen_ai.tool.call.result", content.result.as_str());
                }
                if call.tool.starts_with("mcp__") {
                    out.add("gen_ai.tool.type", "extension");
                    out.add("mcp.method.name", "tools/call");
                    return (format!("tools/call {}", call.tool), OtelSpanKind::Client);
                }
                out.add("gen_ai.tool.type", "function");
                (format!("execute_tool {}", call.tool), OtelSpanKind::Internal)
            }
            SpanWork::Permission(permission) => {
                out.add("gen_ai.tool.call.id", permission.call_id.as_str());
                out.add("crow.permission.answer", permission.answer.as_str());
                ("crow.permission_wait".to_owned(), OtelSpanKind::Internal)
            }
            SpanWork::Question(question) => {
                out.add("gen_ai.tool.call.id", question.call_id.as_str());
                out.add("crow.question.answered", question.answered);
                ("crow.question_wait".to_owned(), OtelSpanKind::Internal)
            }
            SpanWork::Handoff(handoff) => {
                out.add("crow.handoff.from", handoff.from.as_str());
                out.add("crow.handoff.to", handoff.to.as_str());
                ("crow.handoff".to_owned(), OtelSpanKind::Internal)
            }
            SpanWork::Verdict(verdict) => {
                out.add("crow.review.reviewer", verdict.reviewer.as_str());
                let name = format!("{:?}", verdict.verdict).to_lowercase();
                out.add("crow.review.verdict", name);
                ("crow.review_verdict".to_owned(), OtelSpanKind::Internal)
            }
            SpanWork::Checks(checks) => {
                out.add("crow.checks.passed", checks.passed.clone());
                out.add("crow.checks.failed", checks.failed.clone());
                ("crow.checks".to_owned(), OtelSpanKind::Internal)
            }
            SpanWork::Compaction(compaction) => {
                out.add("crow.compaction.tokens_before", compaction.tokens_before);
                out.add("crow.compaction.tokens_after", compaction.tokens_after);
                ("crow.compaction".to_owned(), OtelSpanKind::Internal)
            }
        }
    }

    fn model_call(&self, call: &ModelCallWork, out: &mut AttributeBuilder) {
        out.add("gen_ai.operation.name", "chat");
        out.add("gen_ai.provider.name", provider_name(&call.model.provider));
        out.add("gen_ai.request.model", call.model.model.as_str());
        out.add("gen_ai.output.type", "text");
        out.add_some("gen_ai.response.id", call.response_id.clone());
        let reasons = call.stop.map(|stop| vec![finish_reason(stop).to_owned()]);
        out.add_some("gen_ai.response.finish_reasons", reasons);
        if let Some((address, port)) = server(&call.base_url) {
            out.add("server.address", address);
            out.add_some("server.port", port);
        }
        if let Some(usage) = call.usage {
            let write = match self.conventions {
                GenAiConventions::V1_41 => "gen_ai.usage.cache_creation.input_tokens",
                GenAiConventions::Latest => "gen_ai.usage.cache_write.input_tokens",
            };
            out.add("gen_ai.usage.input_tokens", usage.input_tokens);
            out.add("gen_ai.usage.output_tokens", usage.output_tokens);
            out.add("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens);
            out.add(write, usage.cache_write_tokens);
            out.add_some("gen_ai.usage.reasoning.output_tokens", usage.reasoning_tokens);
            let price = self.prices.get(&call.model);
            out.add_some("crow.cost.usd", price.map(|price| price.cost(&usage)));
        }
        if self.conventions == GenAiConventions::Latest {
            out.add("gen_ai.request.stream", true);
            let first = call.first_chunk_ms.map(seconds);
            out.add_some("gen_ai.response.time_to_first_chunk", first);
            out.add("gen_ai.conversation.compacted", call.compacted);
        } else {
            out.add_some("crow.time_to_first_chunk", call.first_chunk_ms.map(seconds));
        }
        out.add("crow.usage.estimated", call.estimated);
        out.add("crow.retries", call.retries);
    }

    fn status(&self, span: &TraceSpan, out: &mut AttributeBuilder) -> Option<OtelStatus> {
        let (kind, message) = match &span.outcome {
            SpanOutcome::Succeeded => return None,
            SpanOutcome::Failed { kind, message } => (kind.as_str(), message.as_str()),
            SpanOutcome::Cancelled => ("cancelled", "cancelled"),
            SpanOutcome::Unfinished => ("unfinished", "no end was seen"),
        };
        out.add("error.type", kind);
        let message = match self.content {
            ContentCapture::Captured => message,
            ContentCapture::LeftOut => kind,
        };
        Some(OtelStatus { message: message.to_owned(), code: 2 })
    }
}

/// Returns messages as JSON in a text: attributes of spans have no structure.
fn messages_json(messages: &[serde_json::Value]) -> String {
    serde_json::Value::from(messages.to_vec()).to_string()
}

/// Returns milliseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "durations are far below 2^52 ms")]
fn seconds(millis: u64) -> f64 {
    millis as f64 / 1000.0
}

/// Returns a moment in nanoseconds since 1970; 0 for moments before.
pub(crate) fn unix_nano(time: Timestamp) -> u64 {
    u64::try_from(time.as_nanosecond()).unwrap_or_default()
}

fn role_name(role: AgentRole) -> &'static str {
    match role {
        AgentRole::Primary => "primary",
        AgentRole::Coagent => "coagent",
        AgentRole::Subagent => "subagent",
    }
}

/// Returns the well-known name of a provider, or its own name.
pub(crate) fn provider_name(provider: &str) -> &str {
    match provider {
        "gemini" | "google" => "gcp.gemini",
        "vertex" => "gcp.vertex_ai",
        "azure" => "azure.ai.openai",
        "bedrock" => "aws.bedrock",
        "mistral" => "mistral_ai",
        "xai" => "x_ai",
        other => other,
    }
}

fn finish_reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::EndTurn | StopReason::StopSequence => "stop",
        StopReason::ToolUse => "tool_call",
        StopReason::MaxTokens => "length",
        StopReason::Refusal => "content_filter",
        StopReason::Pause => "pause",
    }
}

/// Returns the host and port of an address such as `https://api.example.org/v1`.
pub(crate) fn server(base_url: &str) -> Option<(String, Option<u64>)> {
    let (scheme, rest) = base_url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()),
        Some(_) | None => (authority, None),
    };
    let standard = match scheme {
        "https" => Some(443),
        "http" => Some(80),
        _ => None,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (host.to_owned(), port.or(standard)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_by_host_and_port() {
        let server = |url| server(url).map(|(host, port)| (host, port.unwrap_or(0)));
        assert_eq!(server("https://api.example.org/v1"), Some(("api.example.org".to_owned(), 443)));
        assert_eq!(server("http://127.0.0.1:8080/v1"), Some(("127.0.0.1".to_owned(), 8080)));
        assert_eq!(server("http://u:p@[::1]:9/x"), Some(("::1".to_owned(), 9)));
        assert_eq!(server("nonsense"), None);
    }
}
