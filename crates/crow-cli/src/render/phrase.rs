//! Single events as lines for people.

use std::time::Duration;

use crow_core::{
    event::{AgentEvent, CheckRun, Envelope, InputSource, NoticeAudience, NoticeLevel, Verdict},
    message::Block,
    model::{ProviderError, ProviderErrorKind},
};

use super::{
    ConsoleStyle, Visibility, neutralise, one_line,
    paint::Paint,
    question::user_answer,
    words,
    wrap::{hanging, shorten_middle, wrapped},
};

/// What is said of a rewind.
const REWOUND: &str = "the conversation goes on from an earlier point";
/// Columns of an agent's name before what it does.
const NAME_WIDTH: usize = 16;

/// Names the agent before what it does, if it is not the root session's.
pub(super) fn who(style: &ConsoleStyle, envelope: &Envelope) -> String {
    if envelope.is_root() {
        return String::new();
    }
    format!("{}: ", shorten_middle(&one_line(&envelope.agent), NAME_WIDTH, style.glyphs))
}

/// Writes an event that is shown whatever came before it. Others, and those that are not shown, give no lines.
pub(super) fn event(style: &ConsoleStyle, envelope: &Envelope) -> String {
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
            model_wait(style, &who(style, envelope), reason, *wait_ms)
        }
        AgentEvent::ToolsWait { servers } => {
            let (who, servers) = (who(style, envelope), servers.join(", "));
            remark(style, &format!("{who}waiting for the tools of {servers}"))
        }
        AgentEvent::CallWait { reason, .. } => {
            remark(style, &format!("{}waiting: {reason}", who(style, envelope)))
        }
        AgentEvent::FilesRestored { text, .. } => restored(style, text),
        AgentEvent::Rewind { .. } => remark(style, REWOUND),
        AgentEvent::QuestionAnswered { answer, .. } => {
            user_answer(style, &who(style, envelope), answer)
        }
        AgentEvent::PermissionWithdrawn { .. } | AgentEvent::QuestionWithdrawn { .. }
            if style.questions == Visibility::Show =>
        {
            remark(style, &format!("{}the question was withdrawn", who(style, envelope)))
        }
        AgentEvent::Switch { change } => remark(style, change),
        AgentEvent::Compaction { .. } => remark(style, "the history was made shorter"),
        AgentEvent::Notice { level, audience: NoticeAudience::User, text } => {
            notice(style, *level, &format!("{}{text}", who(style, envelope)))
        }
        AgentEvent::Error { error: text, .. } => {
            error(style, &format!("{}{text}", who(style, envelope)))
        }
        AgentEvent::SessionStart { .. }
        | AgentEvent::UserInput { .. }
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

/// Writes that a request is sent again, and whether text above is void.
pub(super) fn retry(
    style: &ConsoleStyle,
    who: &str,
    error: &ProviderError,
    (attempt, wait_ms): (u32, u64),
    over: &str,
) -> String {
    let provider = if error.provider.is_empty() { "the provider" } else { &error.provider };
    let wait = match wait_ms % 1000 {
        0 => words::whole_seconds(wait_ms / 1000),
        _ => words::duration(Duration::from_millis(wait_ms)),
    };
    let (provider, cause) = (one_line(provider), short_cause(error.kind));
    let text = format!("{who}{provider}: {cause}, trying again in {wait} ({attempt}){over}");
    hanging(style, Paint::Yellow, (style.glyphs.pick("↻ ", "~ "), "  "), &text)
}

/// Writes what a request waits for before it is sent. A short wait is not worth a line.
fn model_wait(style: &ConsoleStyle, who: &str, reason: &str, wait_ms: Option<u64>) -> String {
    let wait = match wait_ms {
        Some(0..1000) => return String::new(),
        Some(millis) => format!(", {}", words::whole_seconds(millis.div_ceil(1000))),
        None => String::new(),
    };
    remark(style, &format!("{who}waiting: {reason}{wait}"))
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

/// Writes the words that an input brought.
fn input(style: &ConsoleStyle, agent: &str, source: InputSource, content: &[Block]) -> String {
    let is_typed = matches!(source, InputSource::Prompt | InputSource::Steering);
    if is_typed && style.prompts == Visibility::Hide {
        return String::new();
    }
    let (prefix, paint) = match source {
        InputSource::Prompt | InputSource::Steering => ("> ", Paint::Cyan),
        InputSource::ControlFlow => (style.glyphs.pick("↪ ", "+> "), Paint::Dim),
        // Its words were shown when it said them.
        InputSource::Reviewer => return passed_on(style, "review", agent, ""),
    };
    let blocks = content.iter().map(|block| match block {
        Block::Text { text } => neutralise(text),
        Block::Image(image) => format!("[{}]", one_line(&image.media_type)),
    });
    let text = blocks.collect::<Vec<_>>().join("\n");
    wrapped(style, paint, prefix, text.trim_end())
}

/// Writes what the agent is told of an undo.
fn restored(style: &ConsoleStyle, text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    remark(style, &format!("the agent is told: {first}"))
}

/// Writes a notice for the user.
fn notice(style: &ConsoleStyle, level: NoticeLevel, text: &str) -> String {
    let (first, paint) = match level {
        NoticeLevel::Info => ("note: ", Paint::Dim),
        NoticeLevel::Warning => ("warning: ", Paint::Yellow),
    };
    hanging(style, paint, (first, "  "), neutralise(text).trim_end())
}

/// Writes an error.
fn error(style: &ConsoleStyle, text: &str) -> String {
    hanging(style, Paint::Red, ("error: ", "  "), neutralise(text).trim_end())
}

/// Writes where a session stands.
fn session(style: &ConsoleStyle, id: &str, model: &str, cwd: &str) -> String {
    let text = format!("session {}  {}  {}", one_line(id), one_line(model), one_line(cwd));
    wrapped(style, Paint::Dim, "", &text)
}

/// Writes that work goes from one agent to another.
fn passed_on(style: &ConsoleStyle, from: &str, to: &str, what: &str) -> String {
    let arrow = style.glyphs.pick("→", "->");
    let mut text = format!("{arrow} {} {arrow} {}", one_line(from), one_line(to));
    let what = one_line(what);
    if !what.is_empty() {
        text.push_str(": ");
        text.push_str(&what);
    }
    let mut line = String::new();
    let text = shorten_middle(&text, style.width.saturating_sub(1), style.glyphs);
    Paint::Cyan.write(style, &text, &mut line);
    line.push('\n');
    line
}

/// Writes what a reviewer says of the work.
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

/// Writes how the checks went: which ran, or which failed with which code.
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
        text.push_str(&wrapped(style, Paint::Dim, "  ", &line));
    }
    if let Some(reason) = unverified.filter(|_| passed) {
        text.push_str(&wrapped(
            style,
            Paint::Yellow,
            "  ",
            &format!("unverified: {}", one_line(reason)),
        ));
    }
    text
}

/// Writes a remark about the session itself.
fn remark(style: &ConsoleStyle, text: &str) -> String {
    wrapped(style, Paint::Dim, style.glyphs.pick("· ", "- "), &one_line(text))
}
