//! The transcript: messages, calls with their outputs and diffs, and what else happened, in order.

use std::{collections::HashMap, path::PathBuf};

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
use jiff::{Timestamp, tz::TimeZone};
use serde_json::Value;

use super::{SessionReport, html::HtmlWriter, words};

/// Number of styles that tell agents apart.
const AGENT_STYLES: usize = 6;
/// Maximum number of agents that are told apart.
const MOST_AGENTS: usize = 100;

/// How many bytes of a part are shown.
#[derive(Debug, Clone, Copy)]
struct TextLimits {
    message: usize,
    output: usize,
    arguments: usize,
    diff: usize,
}

impl TextLimits {
    /// The limits of parts that are shown one by one.
    const SINGLE: Self = Self { message: 20_000, output: 6_000, arguments: 2_000, diff: 8_000 };

    /// Divides what a page may hold among the parts of these events.
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
            message: (100_000 / messages).clamp(300, Self::SINGLE.message),
            output: (80_000 / calls).clamp(120, Self::SINGLE.output),
            arguments: (30_000 / calls).clamp(60, Self::SINGLE.arguments),
            diff: (60_000 / diffs).clamp(160, Self::SINGLE.diff),
        }
    }
}

/// Writes the transcript of a session and its descendants.
pub(super) fn transcript(report: &SessionReport<'_>, html: &mut HtmlWriter) {
    html.markup("<h2 id=\"transcript\">Transcript</h2>");
    let mut renderer = TranscriptRenderer {
        limits: TextLimits::of(report.events),
        ..TranscriptRenderer::new(report.zone.clone(), report.cwd)
    };
    for event in report.events {
        html.markup(&renderer.render(event));
    }
}

/// Renders the events of a session one by one as HTML: the transcript of a report, or of a session under way.
#[derive(Debug)]
pub struct TranscriptRenderer {
    zone: TimeZone,
    cwd: PathBuf,
    html: HtmlWriter,
    limits: TextLimits,
    /// The agents in the order in which they appeared.
    agents: Vec<String>,
    /// Calls that are not answered yet.
    open: HashMap<(SessionId, CallId), UnansweredCall>,
    runs: usize,
}

/// A call that is not answered yet.
#[derive(Debug)]
struct UnansweredCall {
    title: String,
    arguments: Value,
    start: Timestamp,
}

impl TranscriptRenderer {
    /// Creates a renderer for the first event of a session. Times are shown in `zone`, and paths below `cwd` as relative
    /// ones.
    pub fn new(zone: TimeZone, cwd: impl Into<PathBuf>) -> Self {
        Self {
            zone,
            cwd: cwd.into(),
            html: HtmlWriter::default(),
            limits: TextLimits::SINGLE,
            agents: Vec::new(),
            open: HashMap::new(),
            runs: 0,
        }
    }

    /// Renders the next event, in the order of their numbers. The markup is complete elements, all text in it is
    /// escaped, and it is empty if the event is no part of a transcript: starts of calls are shown with their ends.
    pub fn render(&mut self, event: &Envelope) -> String {
        self.event(event);
        std::mem::take(&mut self.html).finish()
    }

    /// Takes account of an event that is not shown: later ones are rendered as if it had been.
    pub fn skip(&mut self, event: &Envelope) {
        match &event.event {
            AgentEvent::RunStart { .. } if event.is_root() => self.runs += 1,
            AgentEvent::Reply { .. } => {
                self.style(event);
            }
            AgentEvent::CallStart { .. } => self.event(event),
            AgentEvent::CallEnd { call_id, .. } => {
                self.style(event);
                self.open.remove(&(event.session_id.clone(), call_id.clone()));
            }
            _ => {}
        }
    }

    /// Renders a patch.
    pub fn render_patch(&mut self, patch: &Patch) -> String {
        self.diff(patch);
        std::mem::take(&mut self.html).finish()
    }

    /// Returns the class of everything that an agent says and does.
    pub fn agent_class(&mut self, event: &Envelope) -> String {
        format!("a{}", self.style(event))
    }

    fn event(&mut self, line: &Envelope) {
        match &line.event {
            AgentEvent::RunStart { .. } if line.is_root() => {
                self.runs += 1;
                let time = words::time(line.time, &self.zone);
                self.html.element("h3", &format!("Run {}, {time}", self.runs));
            }
            AgentEvent::UserInput { source, content, .. } => self.input(line, *source, content),
            AgentEvent::Reply { blocks, .. } => self.reply(line, blocks),
            AgentEvent::CallStart { call_id, title, arguments, .. } => {
                let call = UnansweredCall {
                    title: title.clone(),
                    arguments: arguments.clone(),
                    start: line.time,
                };
                self.open.insert((line.session_id.clone(), call_id.clone()), call);
            }
            AgentEvent::CallEnd { call_id, tool, result, denial, .. } => {
                self.call(line, call_id, tool, result, denial.as_ref());
            }
            AgentEvent::PermissionDecision { answer, waited_ms, .. } => {
                let answer = words::permission_answer(answer.name());
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
    fn style(&mut self, line: &Envelope) -> usize {
        let known = self.agents.iter().position(|agent| *agent == line.agent);
        let index = known.unwrap_or_else(|| {
            // A damaged log may name any number of agents.
            if self.agents.len() < MOST_AGENTS {
                self.agents.push(line.agent.clone());
            }
            self.agents.len() - 1
        });
        index % AGENT_STYLES
    }

    fn agent_name(line: &Envelope) -> String {
        match line.role {
            AgentRole::Primary => line.agent.clone(),
            AgentRole::Coagent => format!("{} (reviewer)", line.agent),
            AgentRole::Subagent => format!("{} (subagent)", line.agent),
        }
    }

    fn input(&mut self, line: &Envelope, source: InputSource, content: &[Block]) {
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

    fn reply(&mut self, line: &Envelope, blocks: &[ReplyBlock]) {
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
            &format!("{}, {}", Self::agent_name(line), words::clock(line.time, &self.zone)),
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
        line: &Envelope,
        call_id: &CallId,
        tool: &str,
        result: &ToolResult,
        denial: Option<&Denial>,
    ) {
        let begun = self.open.remove(&(line.session_id.clone(), call_id.clone()));
        let style = self.style(line);
        let duration = begun.as_ref().map_or_else(String::new, |call| {
            let lasted = line.time.duration_since(call.start);
            words::duration(lasted.try_into().unwrap_or_default())
        });
        let (class, end) = match (denial, result.is_error()) {
            (Some(_), _) => ("bad", "refused"),
            (None, true) => ("bad", "failed"),
            (None, false) => ("muted", ""),
        };
        self.html.format(format_args!("<details class=\"call a{style}\"><summary>"));
        self.html.element("code", tool);
        self.html.markup(" ");
        self.html.text(&shorten(begun.as_ref().map_or("", |call| &call.title), 160));
        self.html.element(&format!("span class=\"{class}\""), &format!(" {end} {duration}"));
        self.html.markup("</summary>");
        if let Some(call) = begun {
            self.plain(&call.arguments.to_string(), self.limits.arguments);
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
            let shown = path.strip_prefix(&self.cwd).unwrap_or(path).display();
            let head = format!("{shown} +{additions} −{deletions}");
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
