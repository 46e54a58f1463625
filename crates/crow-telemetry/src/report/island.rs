//! The report as data, for programs that read it.

use std::collections::HashMap;

use crow_text::is_unseen;
use serde_json::json;

use super::{SessionReport, html::HtmlWriter};
use crate::{SpanWork, TraceSpan};

/// The version of the format of the data.
const FORMAT: u32 = 1;
/// Maximum number of spans in the data.
const SPANS: usize = 2_000;

/// Writes the spans as JSON into an element that browsers neither show nor run.
pub(super) fn island(report: &SessionReport<'_>, spans: &[TraceSpan], html: &mut HtmlWriter) {
    let origin = spans.iter().map(|span| span.start).min().unwrap_or_default();
    // The first ones begin first: what they are part of is among them.
    let mut spans: Vec<&TraceSpan> = spans.iter().collect();
    spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
    let numbers: HashMap<_, _> =
        spans.iter().take(SPANS).enumerate().map(|(number, span)| (span.id, number)).collect();
    let entries = spans.iter().take(SPANS).map(|span| {
        let parent = span.parent.and_then(|parent| numbers.get(&parent));
        let start = span.start.duration_since(origin).as_millis();
        let usage = match &span.work {
            SpanWork::ModelCall(call) => call
                .usage
                .map(|usage| [usage.input_tokens, usage.cache_read_tokens, usage.output_tokens]),
            _ => None,
        };
        // Columns: kind, name, agent, parent, start and duration in ms, outcome, [input, cached, output].
        json!([
            kind(&span.work),
            span.name(),
            span.agent,
            parent,
            i64::try_from(start).unwrap_or(i64::MAX),
            u64::try_from(span.duration().as_millis()).unwrap_or(u64::MAX),
            outcome(span),
            usage,
        ])
    });
    let data = json!({
        "format": FORMAT,
        "session": report.session_id,
        "model": report.model,
        "start": origin,
        "columns": ["kind", "name", "agent", "parent", "start_ms", "duration_ms", "outcome", "tokens"],
        "spans": entries.collect::<Vec<_>>(),
        "left_out": spans.len().saturating_sub(SPANS),
    });
    html.markup("<script type=\"application/json\" id=\"crow-report\">");
    for character in data.to_string().chars() {
        // Nothing in the data can end the element, and what cannot be seen is visible as its code.
        if character == '<' || is_unseen(character) {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                html.format(format_args!("\\u{unit:04x}"));
            }
        } else {
            html.markup(character.encode_utf8(&mut [0; 4]));
        }
    }
    html.markup("</script>");
}

fn kind(work: &SpanWork) -> &'static str {
    match work {
        SpanWork::Run(_) => "run",
        SpanWork::Turn(_) => "turn",
        SpanWork::ModelCall(_) => "model_call",
        SpanWork::ToolCall(_) => "tool_call",
        SpanWork::Permission(_) => "permission",
        SpanWork::Question(_) => "question",
        SpanWork::Handoff(_) => "handoff",
        SpanWork::Verdict(_) => "verdict",
        SpanWork::Checks(_) => "checks",
        SpanWork::Compaction(_) => "compaction",
    }
}

fn outcome(span: &TraceSpan) -> &'static str {
    use crate::SpanOutcome::{Cancelled, Failed, Succeeded, Unfinished};
    match span.outcome {
        Succeeded => "succeeded",
        Failed { .. } => "failed",
        Cancelled => "cancelled",
        Unfinished => "unfinished",
    }
}
