//! The waterfall of a session in the terminal (`trace`): what took how long, and what it was part of.

use std::{fmt::Write as _, time::Duration};

use crow_console::{
    ConsoleStyle, Paint,
    words::{count, duration, tokens},
    wrap::{shorten_end, width},
};
use crow_telemetry::{ModelCallPurpose, RunTotals, SpanOutcome, SpanTree, SpanWork, TraceSpan};
use crow_text::one_line;

/// Columns of a duration.
const TIME: usize = 10;
/// Minimum and maximum columns of the bars.
const BAR: std::ops::RangeInclusive<usize> = 8..=40;
/// Minimum columns of a label.
const LABEL: usize = 14;
/// Minimum columns of the screen from which details follow the durations.
const DETAIL_SCREEN: usize = 90;

/// Renders the runs among the spans of a session, or says that there are none. `shortest` leaves out what took less time, but for runs and turns.
pub(crate) fn trace_text(style: &ConsoleStyle, spans: &[TraceSpan], shortest: Duration) -> String {
    if spans.is_empty() {
        return "Nothing was run in this session.\n".to_owned();
    }
    let columns = TraceColumns::new(style.width);
    let mut out = String::new();
    let tree = SpanTree::new(spans);
    for (number, (root, run)) in tree.runs().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        heading(style, number + 1, root, run, &mut out);
        let mut left_out = 0_u64;
        for (span, depth) in tree.parts(root) {
            if matches!(span.work, SpanWork::Turn(_)) || span.duration() >= shortest {
                columns.row(style, root, span, depth, &mut out);
            } else {
                left_out += 1;
            }
        }
        if left_out > 0 {
            let text = format!("{left_out} shorter than {} are left out", duration(shortest));
            Paint::Dim.write(style, &text, &mut out);
            out.push('\n');
        }
    }
    out
}

fn heading(
    style: &ConsoleStyle,
    number: usize,
    root: &TraceSpan,
    run: &RunTotals,
    out: &mut String,
) {
    let usage = run.total_usage();
    let facts = format!(
        "run {number}, {}: {}, {}, {} tokens in, {} out",
        duration(root.duration()),
        count(run.model_calls.into(), "model call"),
        count(run.tool_calls.into(), "tool call"),
        tokens(usage.input_tokens),
        tokens(usage.output_tokens),
    );
    Paint::Bold.write(style, &shorten_end(&facts, style.width, style.glyphs), out);
    out.push('\n');
    let prompt = one_line(run.prompt.as_deref().unwrap_or_default());
    if !prompt.is_empty() {
        Paint::Dim.write(style, &shorten_end(&prompt, style.width, style.glyphs), out);
        out.push('\n');
    }
    let end = match &root.outcome {
        SpanOutcome::Succeeded => return,
        SpanOutcome::Failed { message, .. } => format!("{}: {message}", run.result),
        SpanOutcome::Cancelled => "cancelled".to_owned(),
        SpanOutcome::Unfinished => "no end: it still runs, or its process died".to_owned(),
    };
    Paint::Red.write(style, &shorten_end(&one_line(&end), style.width, style.glyphs), out);
    out.push('\n');
}

/// The columns of a row.
#[derive(Debug, Clone, Copy)]
struct TraceColumns {
    label: usize,
    bar: usize,
    detail: usize,
}

impl TraceColumns {
    fn new(screen: usize) -> Self {
        let bar = (screen / 3).clamp(*BAR.start(), *BAR.end());
        let rest = screen.saturating_sub(bar + TIME + 3);
        let detail = if screen >= DETAIL_SCREEN { rest / 3 } else { 0 };
        Self { label: rest.saturating_sub(detail).max(LABEL), bar, detail }
    }

    fn row(
        self,
        style: &ConsoleStyle,
        root: &TraceSpan,
        span: &TraceSpan,
        depth: usize,
        out: &mut String,
    ) {
        let indent = "  ".repeat(depth.min(4));
        let label = shorten_end(&format!("{indent}{}", label(span)), self.label, style.glyphs);
        let is_bad = matches!(span.outcome, SpanOutcome::Failed { .. });
        let paint = match (&span.work, is_bad) {
            (_, true) => Paint::Red,
            (SpanWork::Turn(_) | SpanWork::Run(_), false) => Paint::Bold,
            (SpanWork::ModelCall(_), false) => Paint::Cyan,
            (SpanWork::ToolCall(_) | SpanWork::Checks(_), false) => Paint::Green,
            (SpanWork::Permission(_) | SpanWork::Question(_), false) => Paint::Yellow,
            (SpanWork::Handoff(_) | SpanWork::Verdict(_) | SpanWork::Compaction(_), false) => {
                Paint::Plain
            }
        };
        paint.write(style, &label, out);
        out.push_str(&" ".repeat(self.label.saturating_sub(width(&label)) + 1));
        paint.write(style, &self.bar(style, root, span), out);
        // Writing to a string cannot fail.
        let _ = write!(out, " {:>TIME$}", duration(span.duration()));
        let detail = if self.detail > 0 { detail(span) } else { String::new() };
        if !detail.is_empty() {
            out.push(' ');
            let detail = shorten_end(&one_line(&detail), self.detail, style.glyphs);
            Paint::Dim.write(style, &detail, out);
        }
        out.push('\n');
    }

    /// Renders the part of the run that the span took.
    fn bar(self, style: &ConsoleStyle, root: &TraceSpan, span: &TraceSpan) -> String {
        let whole = root.duration().as_micros().max(1);
        let offset = Duration::try_from(span.start.duration_since(root.start)).unwrap_or_default();
        let columns = |time: Duration| {
            usize::try_from(time.as_micros() * self.bar as u128 / whole).unwrap_or(self.bar)
        };
        let left = columns(offset).min(self.bar - 1);
        let end = columns(offset + span.duration()).clamp(left + 1, self.bar);
        let is_moment = span.duration().is_zero();
        let mark =
            if is_moment { style.glyphs.pick("·", "'") } else { style.glyphs.pick("█", "#") };
        let ground = style.glyphs.pick("░", ".");
        [ground.repeat(left), mark.repeat(end - left), ground.repeat(self.bar - end)].concat()
    }
}

fn label(span: &TraceSpan) -> String {
    let text = match &span.work {
        SpanWork::Turn(turn) => format!("{}, turn {}", span.agent, turn.turn),
        SpanWork::ToolCall(call) if !call.title.is_empty() && call.title != call.tool => {
            format!("{} {}", call.tool, call.title)
        }
        SpanWork::Handoff(handoff) => format!("handoff to {}", handoff.to),
        SpanWork::Verdict(verdict) => format!("verdict of {}", verdict.reviewer),
        SpanWork::Run(_)
        | SpanWork::ModelCall(_)
        | SpanWork::ToolCall(_)
        | SpanWork::Permission(_)
        | SpanWork::Question(_)
        | SpanWork::Checks(_)
        | SpanWork::Compaction(_) => span.name().to_owned(),
    };
    one_line(&text)
}

/// Returns what is worth knowing beside the name and the duration; may be empty.
fn detail(span: &TraceSpan) -> String {
    if let SpanOutcome::Failed { message, .. } = &span.outcome {
        return message.clone();
    }
    match &span.work {
        SpanWork::ModelCall(call) => {
            let usage = call.usage.unwrap_or_default();
            let mut text =
                format!("{} in, {} out", tokens(usage.input_tokens), tokens(usage.output_tokens));
            if usage.cache_read_tokens > 0 {
                let percent =
                    usage.cache_read_tokens.saturating_mul(100) / usage.input_tokens.max(1);
                let _ = write!(text, ", {percent} % cached");
            }
            if let Some(first) = call.first_chunk_ms {
                let _ = write!(text, ", first after {}", duration(Duration::from_millis(first)));
            }
            if call.purpose == ModelCallPurpose::Other {
                text.push_str(", beside the conversation");
            }
            text
        }
        SpanWork::ToolCall(call) if call.files_changed > 0 => {
            format!(
                "{}, +{} -{}",
                count(call.files_changed, "file"),
                call.additions,
                call.deletions
            )
        }
        SpanWork::Permission(permission) => permission.answer.replace('_', " "),
        SpanWork::Question(question) => {
            if question.answered { "answered" } else { "withdrawn" }.to_owned()
        }
        SpanWork::Checks(checks) if checks.failed.is_empty() => "passed".to_owned(),
        SpanWork::Checks(checks) => format!("failed: {}", checks.failed.join(", ")),
        SpanWork::Verdict(verdict) => match verdict.verdict {
            crow_core::event::Verdict::Approved => "approved".to_owned(),
            crow_core::event::Verdict::Rejected => "rejected".to_owned(),
            crow_core::event::Verdict::Unfinished => "not finished".to_owned(),
        },
        SpanWork::Compaction(compaction) => {
            format!("{} -> {}", tokens(compaction.tokens_before), tokens(compaction.tokens_after))
        }
        SpanWork::Run(_) | SpanWork::Turn(_) | SpanWork::ToolCall(_) | SpanWork::Handoff(_) => {
            String::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use crow_telemetry::TraceBuilder;
    use crow_testkit::sample::{bad_run, reviewed_run};

    use super::*;

    #[test]
    fn runs_are_shown_as_waterfalls_with_failures_and_reviews() {
        let style = ConsoleStyle::plain(100);
        for (name, story) in [("bad_run", bad_run()), ("reviewed_run", reviewed_run())] {
            let spans = TraceBuilder::spans(&story.events);
            insta::assert_snapshot!(name, trace_text(&style, &spans, Duration::ZERO));
        }
    }

    #[test]
    fn a_waterfall_fits_a_narrow_screen_and_leaves_out_what_was_short() {
        let spans = TraceBuilder::spans(&bad_run().events);
        let style = ConsoleStyle::plain(40);
        let whole = trace_text(&style, &spans, Duration::ZERO);
        assert!(whole.lines().all(|line| width(line) <= 40), "{whole}");
        let cut = trace_text(&style, &spans, Duration::from_hours(1));
        assert!(
            cut.contains("are left out") && cut.lines().count() < whole.lines().count(),
            "{cut}"
        );
    }
}
