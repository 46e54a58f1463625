//! The timeline, the tokens of each model call, and the fill of the context window.

use std::{collections::BTreeMap, time::Duration};

use crow_context::accounting::{ContextAudit, RequestKind};
use crow_core::{
    model::{ModelRef, Price},
    usage::TokenUsage,
};

use super::{html::HtmlWriter, words};
use crate::{SpanOutcome, SpanTree, SpanWork, TraceSpan};

/// Maximum number of bars of the timeline.
const BARS: usize = 400;
/// Maximum number of columns of the chart of tokens.
const COLUMNS: usize = 400;
/// Deepest indentation of the timeline.
const DEPTH: usize = 4;

/// Writes the timeline of each run: what took how long, and what it was part of.
pub(super) fn timeline(spans: &[TraceSpan], html: &mut HtmlWriter) {
    html.markup("<h2 id=\"timeline\">Timeline</h2>");
    html.markup("<ul class=\"key\">");
    for (class, name) in [
        ("model", "model"),
        ("tool", "tool"),
        ("wait", "waiting for the user"),
        ("check", "checks"),
        ("failed", "failed"),
    ] {
        html.format(format_args!(
            "<li><svg viewBox=\"0 0 1 1\" aria-hidden=\"true\"><rect class=\"{class}\" width=\"1\" height=\"1\"/></svg>{name}</li>"
        ));
    }
    html.markup("</ul>");
    let shortest = shortest_shown(spans);
    let tree = SpanTree::new(spans);
    let mut left_out = 0;
    for (number, (root, run)) in tree.runs().enumerate() {
        let prompt = run.prompt.as_deref().unwrap_or_default();
        html.element("h3", &format!("Run {}: {prompt}", number + 1));
        html.markup("<ol class=\"bars\">");
        bar(root, root, 0, html);
        for (span, depth) in tree.parts(root) {
            if span.duration() >= shortest {
                bar(span, root, (depth + 1).min(DEPTH), html);
            } else {
                left_out += 1;
            }
        }
        html.markup("</ol>");
    }
    if left_out > 0 {
        let text =
            format!("{left_out} entries shorter than {} are left out.", words::duration(shortest));
        html.element("p class=\"note\"", &text);
    }
}

/// Returns the shortest duration that is shown, so that not more than [`BARS`] are.
fn shortest_shown(spans: &[TraceSpan]) -> Duration {
    let mut durations: Vec<Duration> = spans.iter().map(TraceSpan::duration).collect();
    if durations.len() <= BARS {
        return Duration::ZERO;
    }
    durations.sort_unstable_by(|one, other| other.cmp(one));
    durations[BARS - 1].max(Duration::from_millis(1))
}

fn bar(span: &TraceSpan, root: &TraceSpan, depth: usize, html: &mut HtmlWriter) {
    let whole = root.duration().as_micros().max(1);
    let begin = span.start.duration_since(root.start);
    let begin = Duration::try_from(begin).unwrap_or_default().as_micros();
    let left = (begin * 1000 / whole).min(999);
    let width = (span.duration().as_micros() * 1000 / whole).clamp(1, 1000 - left);
    let class = match (&span.outcome, &span.work) {
        (SpanOutcome::Failed { .. }, SpanWork::ToolCall(_) | SpanWork::ModelCall(_)) => "failed",
        (_, SpanWork::Turn(_)) => "turn",
        (_, SpanWork::ModelCall(_)) => "model",
        (_, SpanWork::ToolCall(_)) => "tool",
        (_, SpanWork::Permission(_) | SpanWork::Question(_)) => "wait",
        (_, SpanWork::Checks(_)) => "check",
        (
            _,
            SpanWork::Run(_)
            | SpanWork::Handoff(_)
            | SpanWork::Verdict(_)
            | SpanWork::Compaction(_),
        ) => "run",
    };
    let label = match &span.work {
        SpanWork::Turn(turn) => format!("{}, turn {}", span.agent, turn.turn),
        SpanWork::ToolCall(call) if !call.title.is_empty() && call.title != call.tool => {
            format!("{}: {}", call.tool, crow_text::shorten(&call.title, 60))
        }
        _ => span.name().to_owned(),
    };
    html.format(format_args!("<li><span class=\"d{depth}\">"));
    html.text(&label);
    html.format(format_args!(
        "</span><svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"{class}\" x=\"{left}\" width=\"{width}\" height=\"10\"/></svg><span>"
    ));
    html.text(&words::duration(span.duration()));
    html.markup("</span></li>");
}

/// Returns the height of a value in a chart of which the highest value has 960 of 1000.
fn chart_height(value: u64, highest: u64) -> u64 {
    let height = u128::from(value) * 960 / u128::from(highest.max(1));
    u64::try_from(height).unwrap_or(960).min(960)
}

/// A model call, as the chart of tokens shows it.
#[derive(Debug, Clone, Copy, Default)]
struct TokenColumn {
    fresh: u64,
    cached: u64,
    output: u64,
}

impl TokenColumn {
    fn of(usage: &TokenUsage) -> Self {
        let cached = usage.cache_read_tokens.min(usage.input_tokens);
        Self { fresh: usage.input_tokens - cached, cached, output: usage.output_tokens }
    }

    fn sum(self) -> u64 {
        self.fresh.saturating_add(self.cached).saturating_add(self.output)
    }
}

/// Writes the tokens of each model call as columns, and a table of what each model used and cost.
pub(super) fn cost(spans: &[TraceSpan], prices: &BTreeMap<ModelRef, Price>, html: &mut HtmlWriter) {
    html.markup("<h2 id=\"cost\">Tokens and cost</h2>");
    let mut columns: Vec<TokenColumn> = Vec::new();
    let mut models: BTreeMap<&ModelRef, (u64, TokenUsage)> = BTreeMap::new();
    for span in spans {
        if let SpanWork::ModelCall(call) = &span.work
            && let Some(usage) = call.usage
        {
            columns.push(TokenColumn::of(&usage));
            let (calls, sum) = models.entry(&call.model).or_default();
            *calls += 1;
            *sum += usage;
        }
    }
    if columns.is_empty() {
        html.element("p class=\"note\"", "No model answered.");
        return;
    }
    // 1) The columns; several calls share one if there are too many.
    let together = columns.len().div_ceil(COLUMNS);
    let columns: Vec<TokenColumn> = columns
        .chunks(together)
        .map(|calls| calls.iter().copied().max_by_key(|call| call.sum()).unwrap_or_default())
        .collect();
    let highest = columns.iter().map(|column| column.sum()).max().unwrap_or(1).max(1);
    // Few columns stay narrow.
    let width = columns.len().max(40) * 10;
    html.format(format_args!(
        "<svg class=\"chart\" viewBox=\"0 0 {width} 1000\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Tokens of each model call\">"
    ));
    for (index, column) in columns.iter().enumerate() {
        let mut top = 1000;
        for (class, tokens) in
            [("cached", column.cached), ("fresh", column.fresh), ("output", column.output)]
        {
            let height = chart_height(tokens, highest);
            if height > 0 {
                top = u64::saturating_sub(top, height);
                let left = index * 10 + 1;
                html.format(format_args!(
                    "<rect class=\"{class}\" x=\"{left}\" y=\"{top}\" width=\"8\" height=\"{height}\"/>"
                ));
            }
        }
    }
    html.markup("</svg><ul class=\"key\">");
    for (class, name) in
        [("cached", "input from the cache"), ("fresh", "other input"), ("output", "output")]
    {
        html.format(format_args!(
            "<li><svg viewBox=\"0 0 1 1\" aria-hidden=\"true\"><rect class=\"{class}\" width=\"1\" height=\"1\"/></svg>{name}</li>"
        ));
    }
    html.element("li", &format!("highest column: {} tokens", words::number(highest)));
    if together > 1 {
        let text = format!("each column is the largest of {together} model calls");
        html.element("li", &text);
    }
    // 2) The table.
    html.markup("</ul><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Models\"><table><thead><tr><th>Model<th class=\"n\">Calls<th class=\"n\">Input<th class=\"n\">From the cache<th class=\"n\">Output<th class=\"n\">Cost</tr></thead><tbody>");
    for (model, (calls, usage)) in models {
        html.markup("<tr>");
        html.element("td", &model.to_string());
        let cost = prices.get(model).map(|price| format!("${:.4}", price.cost(&usage)));
        for number in [
            words::number(calls),
            words::number(usage.input_tokens),
            words::number(usage.cache_read_tokens),
            words::number(usage.output_tokens),
            cost.unwrap_or_else(|| "unknown".to_owned()),
        ] {
            html.element("td class=\"n\"", &number);
        }
        html.markup("</tr>");
    }
    html.markup("</tbody></table></div>");
}

/// Writes how full the window was at each request of the root session, and where the conversation was compacted.
pub(super) fn context(audit: &ContextAudit, html: &mut HtmlWriter) {
    html.markup("<h2 id=\"context\">Context</h2>");
    let requests: Vec<_> =
        audit.requests().iter().filter(|request| request.kind == RequestKind::Reply).collect();
    if requests.is_empty() {
        html.element("p class=\"note\"", "No request was answered.");
        return;
    }
    let together = requests.len().div_ceil(COLUMNS);
    let shown: Vec<_> = requests.chunks(together).filter_map(|chunk| chunk.last()).collect();
    let highest = requests.iter().map(|request| request.usage.input_tokens).max().unwrap_or(1);
    let highest = highest.max(1);
    let width = shown.len().max(40) * 10;
    html.format(format_args!(
        "<svg class=\"chart\" viewBox=\"0 0 {width} 1000\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Input tokens of each request\"><polyline class=\"curve\" points=\""
    ));
    for (index, request) in shown.iter().enumerate() {
        let (left, top) =
            (index * 10 + 5, 1000 - chart_height(request.usage.input_tokens, highest));
        html.format(format_args!("{left},{top} "));
    }
    html.markup("\"/>");
    if let [only] = shown.as_slice() {
        let top = 1000 - chart_height(only.usage.input_tokens, highest);
        html.format(format_args!("<circle class=\"fresh\" cx=\"5\" cy=\"{top}\" r=\"5\"/>"));
    }
    for compaction in audit.compactions() {
        let before = shown.iter().filter(|request| request.time <= compaction.time).count();
        let left = before * 10;
        html.format(format_args!(
            "<line class=\"cut\" x1=\"{left}\" x2=\"{left}\" y1=\"0\" y2=\"1000\"/>"
        ));
    }
    html.markup("</svg>");
    let compacted = match audit.compactions().len() {
        0 => "The conversation was not compacted.".to_owned(),
        1 => "The conversation was compacted once, at the dashed line.".to_owned(),
        times => format!("The conversation was compacted {times} times, at the dashed lines."),
    };
    let text = format!(
        "Requests: {}, the largest with {} tokens. {compacted}",
        words::number(requests.len() as u64),
        words::number(highest),
    );
    html.element("p class=\"note\"", &text);
    for compaction in audit.compactions() {
        if let Some(report) = &compaction.report {
            html.element("p class=\"note\"", &format!("Compacted: {report}"));
        }
    }
}
