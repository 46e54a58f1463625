//! The page as a whole: its head, the facts, the runs, and the decisions.

use std::{collections::BTreeMap, time::Duration};

use crow_context::accounting::ContextAudit;
use crow_core::{
    ending::EndAssessment,
    event::{AgentEvent, Envelope},
    ids::SessionId,
    model::{ModelRef, Price},
    usage::TokenUsage,
};
use jiff::tz::TimeZone;

use super::{charts, html::HtmlWriter, island, transcript, words};
use crate::{RunTotals, SpanOutcome, SpanTree, SpanWork, TraceBuilder, TraceSpan};

/// The style sheet of a report, its sections and its transcript.
pub const REPORT_STYLE: &str = include_str!("style.css");
/// The hash of the style sheet, which the document permits. A test keeps it true.
pub(super) const STYLE_HASH: &str = "sha256-AIAYucJptCFZBkCt/DrqxgMaPl8EhOgvw5dMR1EQlfU=";

/// What a report is made from.
#[derive(Debug, Clone)]
pub struct SessionReport<'a> {
    /// The root session.
    pub session_id: &'a SessionId,
    /// Its title; may be empty.
    pub title: &'a str,
    /// Its working directory.
    pub cwd: &'a str,
    /// The provider and model, as `provider/model`.
    pub model: &'a str,
    /// The events of the session and its descendants, in the order of their numbers.
    pub events: &'a [Envelope],
    /// Prices of models.
    pub prices: &'a BTreeMap<ModelRef, Price>,
    /// The time zone of its times.
    pub zone: TimeZone,
    /// The version of the program that makes it.
    pub version: &'a str,
}

/// A section of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportSection {
    /// The numbers of the session in a list.
    Facts,
    /// The runs, with how they ended.
    Runs,
    /// What took how long.
    Timeline,
    /// Tokens and cost of model calls.
    Cost,
    /// How full the window was.
    Context,
    /// Permissions, checks, verdicts and ends.
    Decisions,
}

impl ReportSection {
    /// The sections between the head of a report and its transcript, in their order.
    const ALL: [Self; 5] = [Self::Runs, Self::Timeline, Self::Cost, Self::Context, Self::Decisions];
}

impl SessionReport<'_> {
    /// Returns the report as an HTML document.
    pub fn to_html(&self) -> String {
        let spans = TraceBuilder::spans(self.events);
        let mut html = HtmlWriter::default();
        self.head(&spans, &mut html);
        html.markup("<main id=\"main\">");
        for section in ReportSection::ALL {
            self.write_section(section, &spans, &mut html);
        }
        transcript::transcript(self, &mut html);
        html.markup("</main><footer><p>");
        html.text(&format!("Made by crow-agent {}.", self.version));
        html.markup("</p></footer>");
        island::island(self, &spans, &mut html);
        html.markup("</body></html>\n");
        html.finish()
    }

    /// Returns some sections of the report, each as complete elements in which all text is escaped.
    pub fn sections(&self, sections: &[ReportSection]) -> Vec<String> {
        let spans = TraceBuilder::spans(self.events);
        let render = |section: &ReportSection| {
            let mut html = HtmlWriter::default();
            self.write_section(*section, &spans, &mut html);
            html.finish()
        };
        sections.iter().map(render).collect()
    }

    fn write_section(&self, section: ReportSection, spans: &[TraceSpan], html: &mut HtmlWriter) {
        match section {
            ReportSection::Facts => self.facts(spans, html),
            ReportSection::Runs => runs(spans, html),
            ReportSection::Timeline => charts::timeline(spans, html),
            ReportSection::Cost => charts::cost(spans, self.prices, html),
            ReportSection::Context => {
                let own = self.events.iter().filter(|line| line.session_id == *self.session_id);
                // A damaged log has no account of its window; the rest of the report is made all the same.
                if let Ok(audit) = ContextAudit::from_log(own) {
                    charts::context(&audit, html);
                }
            }
            ReportSection::Decisions => self.decisions(spans, html),
        }
    }

    fn head(&self, spans: &[TraceSpan], html: &mut HtmlWriter) {
        let title = if self.title.is_empty() { "Session" } else { self.title };
        html.markup("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">");
        html.format(format_args!(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{STYLE_HASH}'; base-uri 'none'; form-action 'none'\">"
        ));
        html.markup("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><meta name=\"referrer\" content=\"no-referrer\">");
        html.element("title", &format!("{title} · Crow"));
        html.format(format_args!("<style>{REPORT_STYLE}</style>"));
        html.markup("</head><body><a class=\"skip\" href=\"#main\">Skip to content</a><header>");
        html.element("h1", title);
        self.write_section(ReportSection::Facts, spans, html);
        html.markup("</header><nav aria-label=\"Sections\"><ul>");
        for (anchor, name) in [
            ("runs", "Runs"),
            ("timeline", "Timeline"),
            ("cost", "Tokens and cost"),
            ("context", "Context"),
            ("decisions", "Decisions"),
            ("transcript", "Transcript"),
        ] {
            html.format(format_args!("<li><a href=\"#{anchor}\">{name}</a></li>"));
        }
        html.markup("</ul></nav>");
    }

    fn facts(&self, spans: &[TraceSpan], html: &mut HtmlWriter) {
        let mut usage = TokenUsage::default();
        let (mut cost, mut is_partial) = (0.0, false);
        let (mut model_time, mut tool_time, mut wait) =
            (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        let (mut steps, mut calls, mut run_time) = (0_u64, 0_u64, Duration::ZERO);
        for span in spans {
            match &span.work {
                SpanWork::ModelCall(call) => {
                    steps += 1;
                    model_time += span.duration();
                    let used = call.usage.unwrap_or_default();
                    usage += used;
                    match self.prices.get(&call.model) {
                        Some(price) => cost += price.cost(&used),
                        None => is_partial |= used.total() > 0,
                    }
                }
                SpanWork::ToolCall(_) => {
                    calls += 1;
                    tool_time += span.duration();
                }
                SpanWork::Permission(_) | SpanWork::Question(_) => wait += span.duration(),
                SpanWork::Run(_) => run_time += span.duration(),
                SpanWork::Turn(_)
                | SpanWork::Handoff(_)
                | SpanWork::Verdict(_)
                | SpanWork::Checks(_)
                | SpanWork::Compaction(_) => {}
            }
        }
        let from = self
            .events
            .first()
            .map(|event| words::time(event.time, &self.zone))
            .unwrap_or_default();
        let to =
            self.events.last().map(|event| words::time(event.time, &self.zone)).unwrap_or_default();
        let cached = usage.cache_read_tokens.saturating_mul(100) / usage.input_tokens.max(1);
        let cost_words = match (cost > 0.0, is_partial) {
            (true, false) => format!("${cost:.4}"),
            (true, true) => format!("at least ${cost:.4}"),
            (false, true) => "price unknown".to_owned(),
            (false, false) => "$0".to_owned(),
        };
        let facts = [
            ("Session", self.session_id.to_string()),
            ("Folder", self.cwd.to_owned()),
            ("Model", self.model.to_owned()),
            ("From", from),
            ("To", to),
            ("Time in runs", words::duration(run_time)),
            ("Model calls", format!("{steps}, {}", words::duration(model_time))),
            ("Tool calls", format!("{calls}, {}", words::duration(tool_time))),
            (
                "Waiting for the user",
                if wait.is_zero() { "none".to_owned() } else { words::duration(wait) },
            ),
            (
                "Input tokens",
                format!("{}, {cached} % from the cache", words::number(usage.input_tokens)),
            ),
            ("Output tokens", words::number(usage.output_tokens)),
            ("Cost", cost_words),
        ];
        html.markup("<dl>");
        for (name, value) in facts {
            html.markup("<div>");
            html.element("dt", name);
            html.element("dd", &value);
            html.markup("</div>");
        }
        html.markup("</dl>");
    }

    /// Writes permissions, checks, verdicts, and claims beside their evidence.
    fn decisions(&self, spans: &[TraceSpan], html: &mut HtmlWriter) {
        html.markup("<h2 id=\"decisions\">Decisions</h2>");
        let titles: BTreeMap<_, _> = spans
            .iter()
            .filter_map(|span| match &span.work {
                SpanWork::ToolCall(call) => {
                    Some(((&span.session_id, &call.call_id), (&call.tool, &call.title)))
                }
                _ => None,
            })
            .collect();
        let mut rows = 0;
        html.markup("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Decisions\"><table><thead><tr><th>Time<th>What<th>Outcome</tr></thead><tbody>");
        for span in spans {
            let (what, outcome) = match &span.work {
                SpanWork::Permission(permission) => {
                    let call = titles.get(&(&span.session_id, &permission.call_id));
                    let what = call.map_or_else(
                        || "permission".to_owned(),
                        |(tool, title)| format!("permission for {tool}: {title}"),
                    );
                    let waited = words::duration(span.duration());
                    (
                        what,
                        format!("{}, after {waited}", words::permission_answer(&permission.answer)),
                    )
                }
                SpanWork::Verdict(verdict) => {
                    (format!("review by {}", verdict.reviewer), words::verdict(verdict.verdict))
                }
                SpanWork::Checks(checks) => {
                    let names = |list: &[String]| list.join(", ");
                    let outcome = match (checks.passed.is_empty(), checks.failed.is_empty()) {
                        (_, true) => format!("passed: {}", names(&checks.passed)),
                        (true, false) => format!("failed: {}", names(&checks.failed)),
                        (false, false) => format!(
                            "failed: {}; passed: {}",
                            names(&checks.failed),
                            names(&checks.passed)
                        ),
                    };
                    ("checks".to_owned(), outcome)
                }
                SpanWork::Handoff(handoff) => {
                    (format!("handoff from {}", handoff.from), format!("to {}", handoff.to))
                }
                SpanWork::Run(_)
                | SpanWork::Turn(_)
                | SpanWork::ModelCall(_)
                | SpanWork::ToolCall(_)
                | SpanWork::Question(_)
                | SpanWork::Compaction(_) => continue,
            };
            rows += 1;
            html.markup("<tr>");
            html.element("td class=\"n\"", &words::clock(span.end, &self.zone));
            html.element("td class=\"w\"", &what);
            html.element("td", &outcome);
            html.markup("</tr>");
        }
        for event in self.events.iter().filter(|event| event.is_root()) {
            if let AgentEvent::RunEnd { assessment: Some(assessment), .. } = &event.event {
                rows += 1;
                html.markup("<tr>");
                html.element("td class=\"n\"", &words::clock(event.time, &self.zone));
                html.element("td class=\"w\"", "the end of the run, held against the log");
                html.element("td", &assessment_words(assessment));
                html.markup("</tr>");
            }
        }
        html.markup("</tbody></table></div>");
        if rows == 0 {
            html.element("p class=\"note\"", "Nothing was asked, checked or reviewed.");
        }
    }
}

/// Writes the table of runs, with what each claims and what was found.
fn runs(spans: &[TraceSpan], html: &mut HtmlWriter) {
    html.markup("<h2 id=\"runs\">Runs</h2><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Runs\"><table><thead><tr><th>Prompt<th>End<th class=\"n\">Time<th class=\"n\">Model calls<th class=\"n\">Tool calls<th class=\"n\">Rounds<th class=\"n\">Tokens</tr></thead><tbody>");
    for (span, run) in SpanTree::new(spans).runs() {
        html.markup("<tr>");
        html.element("td class=\"w\"", run.prompt.as_deref().unwrap_or("(no text)"));
        let (class, end) = end_words(span, run);
        html.element(&format!("td class=\"{class}\""), &end);
        for number in [
            words::duration(span.duration()),
            run.model_calls.to_string(),
            run.tool_calls.to_string(),
            run.rounds.to_string(),
            words::number(run.total_usage().total()),
        ] {
            html.element("td class=\"n\"", &number);
        }
        html.markup("</tr>");
    }
    html.markup("</tbody></table></div>");
}

/// Returns the class and the words for the end of a run.
fn end_words(span: &TraceSpan, run: &RunTotals) -> (&'static str, String) {
    let result = run.result.replace('_', " ");
    match &span.outcome {
        SpanOutcome::Succeeded if run.verified => ("ok", format!("{result}, checks passed")),
        SpanOutcome::Succeeded => ("", result),
        SpanOutcome::Failed { message, .. } => ("bad", format!("{result}: {message}")),
        SpanOutcome::Cancelled => ("bad", "cancelled".to_owned()),
        SpanOutcome::Unfinished => ("bad", "no end: still running, or its process died".to_owned()),
    }
}

/// Returns what was found about the end of a run.
fn assessment_words(assessment: &EndAssessment) -> String {
    let kind = words::end_kind(assessment.kind);
    let parts = [assessment.evidence.as_deref(), assessment.reason.as_deref()];
    let mut text = kind.to_owned();
    for part in parts.into_iter().flatten().chain(assessment.notes.iter().map(String::as_str)) {
        text.push_str("; ");
        text.push_str(part);
    }
    text
}
