//! The transcript: messages, calls with their outputs and diffs, and what else happened, in order.

use std::collections::BTreeMap;

use crow_core::{
    event::{
        AgentEvent, AgentRole, Envelope, InputSource, NoticeAudience, NoticeLevel, RunOutcome,
    },
    ids::{CallId, SessionId},
    message::{Block, ReplyBlock, ReplyContent},
    permission::Denial,
    tool::{FileDiff, Patch, ToolResult},
};
use crow_text::shorten;
use serde_json::Value;

use super::{SessionReport, html::HtmlWriter, words};
use crate::{SpanWork, TraceSpan};

/// Number of styles that tell agents apart.
const AGENT_STYLES: usize = 6;

/// How many bytes of a part are shown, by the number of such parts in the session.
#[derive(Debug, Clone, Copy)]
struct TextLimits {
    message: usize,
    output: usize,
    arguments: usize,
    diff: usize,
}

impl TextLimits {
    fn of(events: &[Envelope]) -> Self {
        let (mut messages, mut calls, mut diffs) = (1, 1, 1);
        for event in events {
            match &event.event {
                AgentEvent::UserInput { .. } | AgentEvent::Reply { .. } => messages += 1,
                AgentEvent::CallEnd { result, .. } => {
                    calls += 1;
                    diffs += usize::from(result.metadata.diff.is_some());
                }
                _ => {}
            }
        }
        Self {
            message: (100_000 / messages).clamp(300, 20_000),
            output: (80_000 / calls).clamp(120, 6_000),
            arguments: (30_000 / calls).clamp(60, 2_000),
            diff: (60_000 / diffs).clamp(160, 8_000),
        }
    }
}

/// Writes the transcript of a session and its descendants.
pub(super) fn transcript(report: &SessionReport<'_>, spans: &[TraceSpan], html: &mut HtmlWriter) {
    html.markup("<h2 id=\"transcript\">Transcript</h2>");
    let durations = spans.iter().filter_map(|span| match &span.work {
        SpanWork::ToolCall(call) => {
            Some(((&span.session_id, &call.call_id), words::duration(span.duration())))
        }
        _ => None,
    });
    let mut transcript = Transcript {
        report,
        html,
        limits: TextLimits::of(report.events),
        durations: durations.collect(),
        agents: Vec::new(),
        open: BTreeMap::new(),
        runs: 0,
    };
    for event in report.events {
        transcript.event(event);
    }
}

struct Transcript<'a> {
    report: &'a SessionReport<'a>,
    html: &'a mut HtmlWriter,
    limits: TextLimits,
    durations: BTreeMap<(&'a SessionId, &'a CallId), String>,
    /// The agents in the order in which they appeared.
    agents: Vec<&'a str>,
    /// Title and arguments of calls that are not answered yet.
    open: BTreeMap<(&'a SessionId, &'a CallId), (&'a str, &'a Value)>,
    runs: usize,
}

impl<'a> Transcript<'a> {
    fn event(&mut self, line: &'a Envelope) {
        match &line.event {
            AgentEvent::RunStart { .. } if line.is_root() => {
                self.runs += 1;
                let time = self.report.time(line.time);
                self.html.element("h3", &format!("Run {}, {time}", self.runs));
            }
            AgentEvent::UserInput { source, content, .. } => self.input(line, *source, content),
            AgentEvent::Reply { blocks, .. } => self.reply(line, blocks),
            AgentEvent::CallStart { call_id, title, arguments, .. } => {
                self.open.insert((&line.session_id, call_id), (title, arguments));
            }
            AgentEvent::CallEnd { call_id, tool, result, denial, .. } => {
                self.call(line, call_id, tool, result, denial.as_ref());
            }
            AgentEvent::PermissionDecision { answer, waited_ms, .. } => {
                let answer = answer.name().replace('_', " ");
                let waited = waited_ms.map(|millis| {
                    format!(" after {}", words::duration(std::time::Duration::from_millis(millis)))
                });
                self.note(&format!("asked for permission: {answer}{}", waited.unwrap_or_default()));
            }
            AgentEvent::Handoff { from, to, .. } => {
                self.note(&format!("{from} hands its work to {to}"));
            }
            AgentEvent::ReviewVerdict { reviewer, verdict } => {
                self.note(&format!("{reviewer}: {}", words::verdict(*verdict)));
            }
            AgentEvent::Checks { checks, passed, .. } => {
                let names: Vec<_> = checks.iter().map(|check| check.name.as_str()).collect();
                let word = if *passed { "passed" } else { "failed" };
                self.note(&format!("checks {word}: {}", names.join(", ")));
            }
            AgentEvent::TaskComplete { summary, verified } => {
                let word = if *verified { "verified by checks" } else { "not verified by checks" };
                self.note(&format!("says that the task is done, {word}: {summary}"));
            }
            AgentEvent::Switch { change } => self.note(change),
            AgentEvent::Instructions { files, .. } => {
                let files: Vec<_> = files.iter().map(ToString::to_string).collect();
                self.note(&format!("instructions: {}", files.join(", ")));
            }
            AgentEvent::FilesRestored { text, .. } => self.note(text),
            AgentEvent::Rewind { .. } => {
                self.note("the conversation was rewound to an earlier point");
            }
            AgentEvent::Compaction { summary, report, .. } => self.compaction(summary, report.as_ref()),
            AgentEvent::JobChanges { files, .. } => {
                self.note(&format!("a background job changed {} files", files.len()));
            }
            AgentEvent::Notice { level, audience: NoticeAudience::User, text } => {
                let word = if *level == NoticeLevel::Warning { "warning: " } else { "" };
                self.note(&format!("{word}{text}"));
            }
            AgentEvent::Error { error, .. } => self.note(&format!("error: {error}")),
            AgentEvent::Cancelled => self.note("cancelled"),
            AgentEvent::RunEnd { result, .. } if line.is_root() => self.end(result),
            AgentEvent::SessionStart { .. }
            | AgentEvent::RunStart { .. }
            | AgentEvent::RunEnd { .. }
            | AgentEvent::RoundStart
            | AgentEvent::RoundEnd
            | AgentEvent::TurnStart { .. }
            | AgentEvent::TurnComplete { .. }
            | AgentEvent::StepComplete { .. }
            | AgentEvent::TextDelta { .. }
            | AgentEvent::TextComplete { .. }
            | AgentEvent::ThinkingDelta { .. }
            | AgentEvent::ThinkingComplete { .. }
            | AgentEvent::ReplyReset { .. }
            | AgentEvent::ModelWait { .. }
            | AgentEvent::ToolsWait { .. }
            | AgentEvent::Usage { .. }
            | AgentEvent::CallPending { .. }
            | AgentEvent::CallWait { .. }
            | AgentEvent::CallProgress { .. }
            | AgentEvent::FilesChanged { .. }
            | AgentEvent::PermissionRequest { .. }
            | AgentEvent::PermissionWithdrawn { .. }
            // The call shows the question, and its result the answer.
            | AgentEvent::QuestionAsked { .. }
            | AgentEvent::QuestionAnswered { .. }
            | AgentEvent::QuestionWithdrawn { .. }
            | AgentEvent::Plan { .. }
            | AgentEvent::CoagentStart { .. }
            | AgentEvent::CoagentEnd { .. }
            | AgentEvent::SubagentStart { .. }
            | AgentEvent::SubagentEnd { .. }
            | AgentEvent::StateChange { .. }
            | AgentEvent::Notice { audience: NoticeAudience::Model, .. }
            | AgentEvent::Cancelling => {}
        }
    }

    /// Returns the style of an agent, which all that it says and does has.
    fn style(&mut self, line: &'a Envelope) -> usize {
        let known = self.agents.iter().position(|agent| *agent == line.agent);
        known.unwrap_or_else(|| {
            self.agents.push(&line.agent);
            self.agents.len() - 1
        }) % AGENT_STYLES
    }

    fn agent_name(line: &Envelope) -> String {
        match line.role {
            AgentRole::Primary => line.agent.clone(),
            AgentRole::Coagent => format!("{} (reviewer)", line.agent),
            AgentRole::Subagent => format!("{} (subagent)", line.agent),
        }
    }

    fn input(&mut self, line: &'a Envelope, source: InputSource, content: &[Block]) {
        let who = match source {
            InputSource::Prompt if line.is_root() => "You".to_owned(),
            InputSource::Steering if line.is_root() => "You, while it worked".to_owned(),
            InputSource::Reviewer => format!("The reviewer to {}", line.agent),
            InputSource::Prompt
            | InputSource::Steering
            | InputSource::ControlFlow
            | InputSource::Generator => format!("To {}", line.agent),
        };
        self.html.markup("<article class=\"user\">");
        self.html.element("h4", &who);
        for block in content {
            match block {
                Block::Text { text } => self.plain(text, self.limits.message),
                Block::Image(image) => {
                    self.note(&format!("an image ({})", image.media_type));
                }
            }
        }
        self.html.markup("</article>");
    }

    fn reply(&mut self, line: &'a Envelope, blocks: &[ReplyBlock]) {
        let has_text = |block: &ReplyBlock| match &block.content {
            ReplyContent::Text { text } | ReplyContent::Thinking { text } => {
                !text.trim().is_empty()
            }
            ReplyContent::Call(_) | ReplyContent::Opaque => false,
        };
        if !blocks.iter().any(has_text) {
            return;
        }
        let style = self.style(line);
        self.html.format(format_args!("<article class=\"a{style}\">"));
        self.html.element(
            "h4",
            &format!("{}, {}", Self::agent_name(line), self.report.clock(line.time)),
        );
        for block in blocks.iter().filter(|block| has_text(block)) {
            match &block.content {
                ReplyContent::Text { text } => {
                    let (shown, cut) = Self::cut(text, self.limits.message);
                    self.html.markdown(&shown);
                    self.cut_note(cut);
                }
                ReplyContent::Thinking { text } => {
                    self.html.markup("<details><summary>reasoning</summary>");
                    self.plain(text, self.limits.message);
                    self.html.markup("</details>");
                }
                ReplyContent::Call(_) | ReplyContent::Opaque => {}
            }
        }
        self.html.markup("</article>");
    }

    fn call(
        &mut self,
        line: &'a Envelope,
        call_id: &'a CallId,
        tool: &str,
        result: &ToolResult,
        denial: Option<&Denial>,
    ) {
        let key = (&line.session_id, call_id);
        let begun = self.open.remove(&key);
        let style = self.style(line);
        let duration = self.durations.get(&key).cloned().unwrap_or_default();
        let (class, end) = match (denial, result.is_error()) {
            (Some(_), _) => ("bad", "refused"),
            (None, true) => ("bad", "failed"),
            (None, false) => ("muted", ""),
        };
        self.html.format(format_args!("<details class=\"call a{style}\"><summary>"));
        self.html.element("code", tool);
        self.html.markup(" ");
        self.html.text(&shorten(begun.map_or("", |(title, _)| title), 160));
        self.html.element(&format!("span class=\"{class}\""), &format!(" {end} {duration}"));
        self.html.markup("</summary>");
        if let Some((_, arguments)) = begun {
            self.plain(&arguments.to_string(), self.limits.arguments);
        }
        if let Some(denial) = denial.filter(|denial| !denial.reason.is_empty()) {
            self.note(&denial.reason);
        }
        match &result.metadata.diff {
            Some(patch) => self.diff(patch),
            None => self.plain(&result.output, self.limits.output),
        }
        self.html.markup("</details>");
    }

    fn diff(&mut self, patch: &Patch) {
        let share = self.limits.diff / patch.files.len().max(1);
        for file in &patch.files {
            let FileDiff { path, additions, deletions, hunks, truncated, note, .. } = file;
            let head = format!("{} +{additions} −{deletions}", path.display());
            self.note(&head);
            let (shown, cut) = Self::cut(hunks, share.max(80));
            self.html.markup("<pre class=\"diff\">");
            for row in shown.lines() {
                let class = match row.as_bytes().first() {
                    Some(b'+') => "p",
                    Some(b'-') => "m",
                    Some(b'@') => "h",
                    _ => "",
                };
                if class.is_empty() {
                    self.html.text(row);
                } else {
                    self.html.element(&format!("span class=\"{class}\""), row);
                }
                self.html.markup("\n");
            }
            self.html.markup("</pre>");
            if !note.is_empty() {
                self.note(note);
            }
            if *truncated && cut == 0 {
                self.note("the log has only a part of this diff");
            }
            self.cut_note(cut);
        }
    }

    fn compaction(&mut self, summary: &str, report: Option<&crow_core::event::CompactionReport>) {
        let what = report.map_or_else(String::new, |report| format!(": {report}"));
        self.note(&format!("the conversation was compacted{what}"));
        if !summary.is_empty() {
            self.html.markup("<details><summary>what took its place</summary>");
            self.plain(summary, self.limits.message);
            self.html.markup("</details>");
        }
    }

    fn end(&mut self, result: &RunOutcome) {
        match result {
            RunOutcome::Completed { .. } | RunOutcome::NeedsInput => {}
            RunOutcome::Stopped { reason } => self.note(&format!("stopped: {reason}")),
            RunOutcome::Cancelled => self.note("the run was cancelled"),
            RunOutcome::Failed { error, .. } => self.note(&format!("the run failed: {error}")),
        }
    }

    /// Writes a text as it is, cut to a length.
    fn plain(&mut self, text: &str, most: usize) {
        if text.trim().is_empty() {
            return;
        }
        let (shown, cut) = Self::cut(text, most);
        self.html.element("pre", &shown);
        self.cut_note(cut);
    }

    /// Returns the beginning and the end of a text of more than `most` bytes, and how many bytes are missing between.
    fn cut(text: &str, most: usize) -> (String, usize) {
        if text.len() <= most {
            return (text.to_owned(), 0);
        }
        let head = text.floor_char_boundary(most * 2 / 3);
        let tail = text.ceil_char_boundary(text.len() - most / 3);
        (format!("{}\n…\n{}", &text[..head], &text[tail..]), tail - head)
    }

    fn cut_note(&mut self, bytes: usize) {
        if bytes > 0 {
            self.note(&format!(
                "{} bytes are left out here; the session's log has them.",
                words::number(bytes as u64)
            ));
        }
    }

    fn note(&mut self, text: &str) {
        self.html.element("p class=\"note\"", &shorten(text, 2_000));
    }
}
