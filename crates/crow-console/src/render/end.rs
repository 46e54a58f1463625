//! The end of a run: answer summary, error, and the last line with outcome and usage.

use std::time::Duration;

use crow_core::ending::EndKind;

use super::{
    ConsoleStyle, neutralise, one_line,
    style::Paint,
    words,
    wrap::{shorten_end, wrap, wrap_hanging},
};
use crate::report::{ErrorReport, ExitCode, ReportOutcome, RunReport, UsageReport};

/// Maximum number of refused or failed calls that the last line names, and columns of their titles.
const NAMED: usize = 2;
const NAMED_TITLE: usize = 30;

/// Renders the last line: outcome, steps, duration, tokens, cost.
pub(super) fn end_line(style: &ConsoleStyle, report: &RunReport) -> String {
    let (mark, paint) = match report.code() {
        ExitCode::Done | ExitCode::Findings => (style.glyphs.pick("✓", "ok:"), Paint::Green),
        ExitCode::Interrupted | ExitCode::Limit | ExitCode::Stopped => {
            (style.glyphs.pick("■", "stopped:"), Paint::Yellow)
        }
        ExitCode::Refused => (style.glyphs.pick("⊘", "refused:"), Paint::Yellow),
        ExitCode::Failed | ExitCode::Usage | ExitCode::Credentials | ExitCode::Provider => {
            (style.glyphs.pick("✗", "failed:"), Paint::Red)
        }
    };
    let separator = style.glyphs.pick(" · ", ", ");
    let mut parts = vec![format!("{}{}", outcome(report), open_ends(style, report))];
    parts.push(words::count(u64::from(report.steps), "step"));
    parts.push(words::duration(Duration::from_millis(report.duration_ms)));
    parts.extend(usage(&report.usage));
    wrap_hanging(style, paint, (&format!("{mark} "), "  "), &parts.join(separator))
}

/// Activity of a run: executed calls or text only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunActivity {
    /// No call was made, or all were refused.
    #[default]
    None,
    /// At least one call was executed.
    Some,
}

/// Renders the last line of a run in a chat: for a successful run without calls only the usage.
pub(super) fn reply_line(style: &ConsoleStyle, report: &RunReport, calls: RunActivity) -> String {
    if report.code() != ExitCode::Done || report.verified || calls == RunActivity::Some {
        return end_line(style, report);
    }
    let usage = usage(&report.usage);
    if usage.is_empty() {
        return String::new();
    }
    wrap_hanging(style, Paint::Dim, ("  ", "  "), &usage.join(style.glyphs.pick(" · ", ", ")))
}

/// Renders the error and the hint. Omits the error if `previous`, the last one on the screen, contains it or is part of
/// it.
pub(super) fn error_lines(style: &ConsoleStyle, error: &ErrorReport, previous: &str) -> String {
    let mut lines = String::new();
    let message = neutralise(&error.message);
    let is_shown = !previous.is_empty()
        && (previous.contains(&error.message) || error.message.contains(previous));
    if !is_shown {
        lines.push_str(&wrap_hanging(style, Paint::Red, ("error: ", "  "), message.trim_end()));
    }
    if let Some(hint) = &error.hint {
        lines.push_str(&wrap_hanging(style, Paint::Plain, ("hint: ", "  "), &one_line(hint)));
    }
    lines
}

/// Renders the summary of the finished task, unless it equals the answer.
pub(super) fn summary(style: &ConsoleStyle, report: &RunReport) -> String {
    let summary = report.summary.as_deref().unwrap_or_default().trim();
    if summary.is_empty() || summary == report.text.trim() {
        return String::new();
    }
    wrap(style, Paint::Plain, style.glyphs.pick("│ ", "| "), &neutralise(summary))
}

/// Returns the refused and failed calls of a run that ended normally but without verification.
fn open_ends(style: &ConsoleStyle, report: &RunReport) -> String {
    if report.verified || report.code() != ExitCode::Done {
        return String::new();
    }
    let refused = report.refusals.iter().map(|call| ("refused", &call.title));
    let failed = report.failures.iter().map(|call| ("failed", &call.title));
    let all: Vec<_> = refused.chain(failed).collect();
    let title = |title: &str| shorten_end(&one_line(title), NAMED_TITLE, style.glyphs);
    let mut named: Vec<String> =
        all.iter().take(NAMED).map(|(verb, call)| format!("{} {verb}", title(call))).collect();
    match all.len().saturating_sub(NAMED) {
        0 => {}
        more => named.push(format!("{more} more")),
    }
    if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) }
}

fn outcome(report: &RunReport) -> &'static str {
    match (report.code(), report.outcome) {
        (ExitCode::Done, _) if report.verified => "done, verified",
        (ExitCode::Done, _) => match &report.assessment {
            Some(assessment) if assessment.kind == EndKind::Answered => "answered",
            Some(assessment) if assessment.evidence.is_some() => "done, with evidence",
            Some(_) | None => "done, unverified",
        },
        (ExitCode::Interrupted, _) => "interrupted",
        (ExitCode::Findings, _) => "reviewed, with findings",
        (ExitCode::Limit, _) => "stopped at a limit",
        (ExitCode::Stopped, _) => "not done",
        (ExitCode::Refused, _) => "not done: a call was refused",
        (ExitCode::Usage, ReportOutcome::Failed) if report.steps == 0 => "not started",
        (ExitCode::Failed | ExitCode::Usage | ExitCode::Credentials | ExitCode::Provider, _) => {
            "failed"
        }
    }
}

/// Returns the usage of a session over all its runs: `700 in · 140 out · $0.0042`. Empty if none is known.
pub fn usage_text(style: &ConsoleStyle, used: &UsageReport) -> String {
    usage(used).join(style.glyphs.pick(" · ", ", "))
}

/// Returns the usage for a table column: `840 $0.0042`.
pub fn short_usage_text(used: &UsageReport) -> String {
    let tokens = Some(used.tokens.total()).filter(|tokens| *tokens > 0).map(words::tokens);
    let cost = used.cost_usd.filter(|cost| *cost > 0.0).map(words::dollars);
    tokens.into_iter().chain(cost).collect::<Vec<_>>().join(" ")
}

fn usage(usage: &UsageReport) -> Vec<String> {
    let tokens = &usage.tokens;
    let mut parts = Vec::new();
    if tokens.total() > 0 {
        let cached = match tokens.cache_read_tokens {
            0 => String::new(),
            cached => format!(" ({} cached)", words::tokens(cached)),
        };
        parts.push(format!("{} in{cached}", words::tokens(tokens.input_tokens)));
        parts.push(format!("{} out", words::tokens(tokens.output_tokens)));
    }
    parts.extend(usage.cost_usd.filter(|cost| *cost > 0.0).map(words::dollars));
    parts
}
