//! Lines for single events, independent of the state of the renderer.

use std::time::Duration;

use crow_core::{
    event::{
        AgentEvent, CheckRun, Envelope, InputSource, InstructionFile, NoticeAudience, NoticeLevel,
        Verdict,
    },
    message::Block,
    model::{ProviderError, ProviderErrorKind},
    todo::{TodoItem, TodoStatus},
};

use super::{
    ConsoleStyle, Visibility,
    call::user_answer,
    neutralise, one_line,
    style::Paint,
    words,
    wrap::{shorten_middle, wrap, wrap_hanging},
};

/// Text for a rewind of the conversation.
const REWOUND: &str = "the conversation was rewound to an earlier point";
/// Maximum columns of an agent's name in a prefix.
const NAME_WIDTH: usize = 16;

/// Returns the prefix that names the agent of an event; empty for the root session.
pub(super) fn agent_prefix(style: &ConsoleStyle, envelope: &Envelope) -> String {
    if envelope.is_root() {
        return String::new();
    }
    format!("{}: ", shorten_middle(&one_line(&envelope.agent), NAME_WIDTH, style.glyphs))
}

/// Renders an event that does not depend on earlier ones. Returns no lines for other events and for hidden ones.
pub(super) fn event(style: &ConsoleStyle, envelope: &Envelope) -> String {
    // The match names every event, so that a new one cannot be forgotten here.
    match &envelope.event {
        AgentEvent::SessionStart { model, cwd, .. } if envelope.is_root() => {
            session(style, envelope.session_id.as_str(), model, &cwd.to_string_lossy())
        }
        AgentEvent::UserInput { source, content, .. } if envelope.is_root() => {
            input(style, &envelope.agent, *source, content)
        }
        AgentEvent::Handoff { from, to, .. } => passed_on(style, from, to, ""),
        AgentEvent::SubagentStart { parent, subagent, task, .. } => {
            passed_on(style, parent, subagent, task)
        }
        AgentEvent::Checks { checks, passed, unverified } => {
            self::checks(style, checks, *passed, unverified.as_deref())
        }
        AgentEvent::ReviewVerdict { reviewer, verdict: said } => verdict(style, reviewer, *said),
        AgentEvent::ModelWait { reason, wait_ms, .. } => {
            model_wait(style, &agent_prefix(style, envelope), reason, *wait_ms)
        }
        AgentEvent::ToolsWait { servers } => {
            let (agent, servers) = (agent_prefix(style, envelope), servers.join(", "));
            remark(style, &format!("{agent}waiting for the tools of {servers}"))
        }
        AgentEvent::CallWait { reason, .. } => {
            remark(style, &format!("{}waiting: {reason}", agent_prefix(style, envelope)))
        }
        AgentEvent::Instructions { files, .. } if envelope.is_root() => instructions(style, files),
        AgentEvent::FilesRestored { text, .. } => restored(style, text),
        AgentEvent::Rewind { .. } => remark(style, REWOUND),
        AgentEvent::QuestionAnswered { answer, .. } => {
            user_answer(style, &agent_prefix(style, envelope), answer)
        }
        AgentEvent::PermissionWithdrawn { .. } | AgentEvent::QuestionWithdrawn { .. }
            if style.questions == Visibility::Show =>
        {
            remark(style, &format!("{}the question was withdrawn", agent_prefix(style, envelope)))
        }
        AgentEvent::Switch { change } => remark(style, change),
        AgentEvent::Compaction { report, .. } => {
            let prefix = agent_prefix(style, envelope);
            let report = report.as_ref().map(|report| format!(": {report}")).unwrap_or_default();
            remark(style, &format!("{prefix}the conversation was compacted{report}"))
        }
        AgentEvent::Notice { level, audience: NoticeAudience::User, text } => {
            notice(style, *level, &format!("{}{text}", agent_prefix(style, envelope)))
        }
        AgentEvent::Error { error: text, .. } => {
            error(style, &format!("{}{text}", agent_prefix(style, envelope)))
        }
        AgentEvent::SessionStart { .. }
        | AgentEvent::UserInput { .. }
        | AgentEvent::Instructions { .. }
        | AgentEvent::Notice { audience: NoticeAudience::Model, .. }
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
        | AgentEvent::Reply { .. }
        | AgentEvent::Usage { .. }
        | AgentEvent::CallPending { .. }
        | AgentEvent::CallStart { .. }
        | AgentEvent::CallProgress { .. }
        | AgentEvent::CallEnd { .. }
        | AgentEvent::FilesChanged { .. }
        | AgentEvent::JobChanges { .. }
        | AgentEvent::PermissionRequest { .. }
        | AgentEvent::PermissionWithdrawn { .. }
        | AgentEvent::PermissionDecision { .. }
        | AgentEvent::QuestionAsked { .. }
        | AgentEvent::QuestionWithdrawn { .. }
        | AgentEvent::Plan { .. }
        | AgentEvent::CoagentStart { .. }
        | AgentEvent::CoagentEnd { .. }
        | AgentEvent::SubagentEnd { .. }
        | AgentEvent::TaskComplete { .. }
        | AgentEvent::Cancelling
        | AgentEvent::StateChange { .. }
        | AgentEvent::Cancelled => String::new(),
    }
}

/// Renders the retry of a request. `suffix` says whether text above is void.
pub(super) fn retry(
    style: &ConsoleStyle,
    agent: &str,
    error: &ProviderError,
    (attempt, wait_ms): (u32, u64),
    suffix: &str,
) -> String {
    let provider = if error.provider.is_empty() { "the provider" } else { &error.provider };
    let wait = match wait_ms % 1000 {
        0 => words::whole_seconds(wait_ms / 1000),
        _ => words::duration(Duration::from_millis(wait_ms)),
    };
    let (provider, cause) = (one_line(provider), short_cause(error.kind));
    let text = format!("{agent}{provider}: {cause}, trying again in {wait} ({attempt}){suffix}");
    wrap_hanging(style, Paint::Yellow, (style.glyphs.pick("↻ ", "~ "), "  "), &text)
}

/// Renders the wait of a request before it is sent. Waits below one second are not shown.
fn model_wait(style: &ConsoleStyle, agent: &str, reason: &str, wait_ms: Option<u64>) -> String {
    let wait = match wait_ms {
        Some(0..1000) => return String::new(),
        Some(millis) => format!(", {}", words::whole_seconds(millis.div_ceil(1000))),
        None => String::new(),
    };
    remark(style, &format!("{agent}waiting: {reason}{wait}"))
}

fn short_cause(kind: ProviderErrorKind) -> &'static str {
    match kind {
        ProviderErrorKind::Auth => "credentials rejected",
        ProviderErrorKind::Permission => "not permitted",
        ProviderErrorKind::NotFound => "no such model or address",
        ProviderErrorKind::InvalidRequest => "request refused",
        ProviderErrorKind::ContextLength => "conversation too long",
        ProviderErrorKind::RateLimited => "rate limit reached",
        ProviderErrorKind::Quota => "quota used up",
        ProviderErrorKind::Overloaded => "overloaded",
        ProviderErrorKind::Server => "server error",
        ProviderErrorKind::Network => "the connection failed",
        ProviderErrorKind::Timeout => "no answer in time",
        ProviderErrorKind::Truncated => "reply broke off",
        ProviderErrorKind::Refusal => "model refused",
        ProviderErrorKind::Decode => "reply not understood",
        ProviderErrorKind::Disabled => "provider disabled",
    }
}

/// Renders the content of an input.
fn input(style: &ConsoleStyle, agent: &str, source: InputSource, content: &[Block]) -> String {
    let is_typed = matches!(source, InputSource::Prompt | InputSource::Steering);
    if is_typed && style.prompts == Visibility::Hide {
        return String::new();
    }
    let (prefix, paint) = match source {
        InputSource::Prompt | InputSource::Steering => ("> ", Paint::Cyan),
        InputSource::ControlFlow => (style.glyphs.pick("↪ ", "+> "), Paint::Dim),
        // These texts were shown with the replies of the generator and the reviewer.
        InputSource::Generator => return passed_on(style, "generator", agent, ""),
        InputSource::Reviewer => return passed_on(style, "review", agent, ""),
    };
    let blocks = content.iter().map(|block| match block {
        Block::Text { text } => neutralise(text),
        Block::Image(image) => format!("[{}]", one_line(&image.media_type)),
    });
    let text = blocks.collect::<Vec<_>>().join("\n");
    wrap(style, paint, prefix, text.trim_end())
}

/// Renders the first line of the message about an undo that the agent receives.
fn restored(style: &ConsoleStyle, text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    remark(style, &format!("the agent is told: {first}"))
}

/// Renders the files whose instructions the model was given.
fn instructions(style: &ConsoleStyle, files: &[InstructionFile]) -> String {
    let files: Vec<_> = files.iter().map(ToString::to_string).collect();
    remark(style, &format!("instructions: {}", files.join(", ")))
}

/// Renders a notice for the user.
fn notice(style: &ConsoleStyle, level: NoticeLevel, text: &str) -> String {
    let (first, paint) = match level {
        NoticeLevel::Info => ("note: ", Paint::Dim),
        NoticeLevel::Warning => ("warning: ", Paint::Yellow),
    };
    wrap_hanging(style, paint, (first, "  "), neutralise(text).trim_end())
}

/// Renders an error.
fn error(style: &ConsoleStyle, text: &str) -> String {
    wrap_hanging(style, Paint::Red, ("error: ", "  "), neutralise(text).trim_end())
}

/// Renders the id, model and directory of a session.
fn session(style: &ConsoleStyle, id: &str, model: &str, cwd: &str) -> String {
    let text = format!("session {}  {}  {}", one_line(id), one_line(model), one_line(cwd));
    wrap(style, Paint::Dim, "", &text)
}

/// Renders the transfer of work from one agent to another, on one line.
fn passed_on(style: &ConsoleStyle, from: &str, to: &str, task: &str) -> String {
    let arrow = style.glyphs.pick("→", "->");
    let mut text = format!("{arrow} {} {arrow} {}", one_line(from), one_line(to));
    let task = one_line(task);
    if !task.is_empty() {
        text.push_str(": ");
        text.push_str(&task);
    }
    let mut line = String::new();
    let text = shorten_middle(&text, style.width.saturating_sub(1), style.glyphs);
    Paint::Cyan.write(style, &text, &mut line);
    line.push('\n');
    line
}

/// Renders the verdict of a reviewer.
fn verdict(style: &ConsoleStyle, reviewer: &str, verdict: Verdict) -> String {
    let (mark, word, paint) = match verdict {
        Verdict::Approved => (style.glyphs.pick("✓", "ok"), "approves the work", Paint::Green),
        Verdict::Rejected => (style.glyphs.pick("✗", "no:"), "rejects the work", Paint::Yellow),
        Verdict::Unfinished => {
            (style.glyphs.pick("✗", "no:"), "did not finish its review", Paint::Yellow)
        }
    };
    let mut line = String::new();
    paint.write(style, mark, &mut line);
    line + &format!(" {} {word}\n", one_line(reviewer))
}

/// Renders the result of the checks, with the command and error of each.
fn checks(
    style: &ConsoleStyle,
    checks: &[CheckRun],
    passed: bool,
    unverified: Option<&str>,
) -> String {
    let mut text = String::new();
    if passed {
        Paint::Green.write(style, style.glyphs.pick("✓", "ok"), &mut text);
        text.push_str(" checks passed\n");
    } else {
        Paint::Red.write(style, style.glyphs.pick("✗", "failed"), &mut text);
        text.push_str(" checks failed\n");
    }
    for check in checks {
        let command = one_line(&check.command);
        let line = match &check.error {
            None if check.fresh => format!("{command} (nothing changed since it passed)"),
            None => command,
            Some(error) => format!("{command} ({})", one_line(error)),
        };
        text.push_str(&wrap(style, Paint::Dim, "  ", &line));
    }
    if let Some(reason) = unverified.filter(|_| passed) {
        text.push_str(&wrap(
            style,
            Paint::Yellow,
            "  ",
            &format!("unverified: {}", one_line(reason)),
        ));
    }
    text
}

/// Renders a remark about the session itself.
fn remark(style: &ConsoleStyle, text: &str) -> String {
    wrap(style, Paint::Dim, style.glyphs.pick("· ", "- "), &one_line(text))
}

/// Renders the list, one line for each item; long items wrap.
pub(super) fn checklist(style: &ConsoleStyle, items: &[TodoItem]) -> String {
    items.iter().map(|item| entry(style, item)).collect()
}

fn entry(style: &ConsoleStyle, item: &TodoItem) -> String {
    let (mark, paint) = match item.status {
        TodoStatus::Pending => (style.glyphs.pick("☐", "[ ]"), Paint::Plain),
        TodoStatus::InProgress => (style.glyphs.pick("▸", "[~]"), Paint::Bold),
        TodoStatus::Completed => (style.glyphs.pick("☑", "[x]"), Paint::Dim),
    };
    let rest = style.glyphs.pick("    ", "      ");
    wrap_hanging(style, paint, (&format!("  {mark} "), rest), &one_line(&item.content))
}
