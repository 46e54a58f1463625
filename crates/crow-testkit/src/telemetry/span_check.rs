//! The rules of spans: each by itself, and as a tree.

use std::collections::{BTreeMap, BTreeSet};

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

use super::{attributes::check_attributes, received_span::ReceivedSpan};

/// Checks spans by themselves and by trace.
pub(super) fn check_spans(spans: &[ReceivedSpan], allows_content: bool, out: &mut Vec<String>) {
    let mut traces: BTreeMap<&[u8], Vec<&ReceivedSpan>> = BTreeMap::new();
    for span in spans {
        check_span(span, allows_content, out);
        traces.entry(&span.span.trace_id).or_default().push(span);
    }
    for spans in traces.values() {
        check_trace(spans, out);
    }
}

fn check_span(received: &ReceivedSpan, allows_content: bool, out: &mut Vec<String>) {
    let span = &received.span;
    let name = span.name.as_str();
    let mut fail = |violation: &str| out.push(format!("{name}: {violation}"));
    if span.trace_id.len() != 16 || span.trace_id.iter().all(|byte| *byte == 0) {
        fail("the trace id");
    }
    if span.span_id.len() != 8 || span.span_id.iter().all(|byte| *byte == 0) {
        fail("the span id");
    }
    if ![0, 8].contains(&span.parent_span_id.len()) || span.parent_span_id == span.span_id {
        fail("the parent's id");
    }
    if span.start_time_unix_nano == 0 || span.start_time_unix_nano > span.end_time_unix_nano {
        fail("ends before it starts");
    }
    if span.flags & 1 == 0 {
        fail("is not marked as sampled");
    }
    // An error has a type and a status, and both only then.
    let has_error_status = span.status.as_ref().is_some_and(|status| status.code == 2);
    if has_error_status != received.text("error.type").is_some() {
        fail("the status and error.type disagree");
    }
    if span.status.as_ref().is_some_and(|status| status.code == 1) {
        fail("the status ok is left to applications");
    }
    if received.text("gen_ai.conversation.id").is_none() {
        fail("no gen_ai.conversation.id");
    }
    check_operation(received, &mut fail);
    check_usage(received, &mut fail);
    check_attributes(name, &span.attributes, allows_content, out);
}

/// Checks what the conventions demand of an operation: the name of the span, its kind, and attributes.
fn check_operation(received: &ReceivedSpan, fail: &mut impl FnMut(&str)) {
    let subject = |key: &str| received.text(key).unwrap_or_default();
    let (prefix, subject, kind, required): (_, _, _, &[&str]) =
        match received.text("gen_ai.operation.name") {
            Some("invoke_workflow") => (
                "invoke_workflow",
                subject("gen_ai.workflow.name"),
                SpanKind::Internal,
                &["gen_ai.workflow.name"],
            ),
            Some("invoke_agent") => (
                "invoke_agent",
                subject("gen_ai.agent.name"),
                SpanKind::Internal,
                &["gen_ai.agent.name"],
            ),
            Some("chat") => (
                "chat",
                subject("gen_ai.request.model"),
                SpanKind::Client,
                &["gen_ai.provider.name", "gen_ai.request.model", "gen_ai.agent.name"],
            ),
            Some("execute_tool") if received.text("mcp.method.name").is_some() => (
                "tools/call",
                subject("gen_ai.tool.name"),
                SpanKind::Client,
                &["gen_ai.tool.name", "gen_ai.tool.call.id"],
            ),
            Some("execute_tool") => (
                "execute_tool",
                subject("gen_ai.tool.name"),
                SpanKind::Internal,
                &["gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.tool.type"],
            ),
            Some(other) => return fail(&format!("no such operation: {other}")),
            None => {
                if !received.span.name.starts_with("crow.") {
                    fail("no gen_ai.operation.name");
                }
                return;
            }
        };
    if received.span.name != format!("{prefix} {subject}") {
        fail(&format!("must be called `{prefix} {subject}`"));
    }
    if received.span.kind != kind as i32 {
        fail(&format!("must be of the kind {kind:?}"));
    }
    for key in required {
        if received.text(key).is_none() {
            fail(&format!("no {key}"));
        }
    }
}

/// Checks that parts of tokens are no more than the whole.
fn check_usage(received: &ReceivedSpan, fail: &mut impl FnMut(&str)) {
    let tokens = |key: &str| received.integer(&format!("gen_ai.usage.{key}")).unwrap_or(0);
    let cache = tokens("cache_read.input_tokens")
        + tokens("cache_creation.input_tokens")
        + tokens("cache_write.input_tokens");
    if cache > tokens("input_tokens") {
        fail("more tokens of the cache than of the input");
    }
    if tokens("reasoning.output_tokens") > tokens("output_tokens") {
        fail("more tokens of reasoning than of the output");
    }
}

/// Checks the spans of a trace: one tree, whose sums add up.
///
/// The span of a run ends last. Until it has arrived, other spans may be missing, as they may if the run went through several
/// processes, some of which were killed.
fn check_trace(spans: &[&ReceivedSpan], out: &mut Vec<String>) {
    let mut by_id: BTreeMap<&[u8], &ReceivedSpan> = BTreeMap::new();
    for span in spans {
        if by_id.insert(&span.span.span_id, span).is_some() {
            out.push(format!("{}: its id is that of another span", span.span.name));
        }
    }
    for span in spans {
        if let Some(parent) = by_id.get(&span.span.parent_span_id[..])
            && parent.span.start_time_unix_nano > span.span.start_time_unix_nano
        {
            out.push(format!("{}: began before {}", span.span.name, parent.span.name));
        }
    }
    let is_run = |span: &&&ReceivedSpan| operation(span) == Some("invoke_workflow");
    let runs: Vec<&&ReceivedSpan> = spans.iter().filter(is_run).collect();
    let processes: BTreeSet<_> = spans.iter().map(|span| &span.process).collect();
    let ([run], 1) = (&runs[..], processes.len()) else {
        if runs.len() > 1 {
            out.push(format!("{} runs in one trace", runs.len()));
        }
        return;
    };
    for span in spans {
        if span.span.span_id != run.span.span_id
            && !by_id.contains_key(&span.span.parent_span_id[..])
        {
            out.push(format!("{}: its parent was not sent", span.span.name));
        }
    }
    let calls = || spans.iter().filter(|span| operation(span) == Some("chat"));
    for (key, total) in [
        ("gen_ai.usage.input_tokens", "crow.run.input_tokens"),
        ("gen_ai.usage.output_tokens", "crow.run.output_tokens"),
    ] {
        let sum: i64 = calls().filter_map(|call| call.integer(key)).sum();
        if run.integer(total) != Some(sum) {
            let said = run.integer(total);
            out.push(format!("{}: {total} is {said:?}, its calls have {sum}", run.span.name));
        }
    }
    let tools = spans.iter().filter(|span| operation(span) == Some("execute_tool")).count();
    if run.integer("crow.run.tool_calls") != i64::try_from(tools).ok() {
        let said = run.integer("crow.run.tool_calls");
        out.push(format!("{}: crow.run.tool_calls is {said:?} of {tools}", run.span.name));
    }
}

fn operation(span: &ReceivedSpan) -> Option<&str> {
    span.text("gen_ai.operation.name")
}
