//! Sequences of events with a clock, and the panel that took them.

use crow_console::Glyphs;
use crow_core::{capability::UserQuestion, event::InputSource, ids::MessageId, message::Origin};
use crow_core::{
    event::{AgentEvent, AgentRole, AgentState, Envelope, ParentCall, RunOutcome},
    ids::{CallId, ReplyId, RequestId, RunId, SessionId},
    model::{ProviderError, ProviderErrorKind, StopReason},
    todo::{TodoItem, TodoStatus},
    tool::{Subject, ToolResult},
    turn::TurnEnd,
    usage::TokenUsage,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    activity::{ActivityPanel, ActivitySpace},
    styled_text::StyledLine,
};

pub(super) const ROOT: &str = "root";

/// The sender of an event.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    pub(super) session: String,
    pub(super) agent: String,
    pub(super) role: AgentRole,
    pub(super) parent: Option<(String, Option<String>)>,
}

/// Returns the agent that the user talks to.
pub(super) fn root() -> Sender {
    Sender { session: ROOT.into(), agent: "builder".into(), role: AgentRole::Primary, parent: None }
}

/// Returns a subagent that a call of another session started.
pub(super) fn subagent(session: &str, agent: &str, parent: &str, call: &str) -> Sender {
    Sender {
        session: session.into(),
        agent: agent.into(),
        role: AgentRole::Subagent,
        parent: Some((parent.into(), Some(call.into()))),
    }
}

/// Returns a coagent of the root.
pub(super) fn coagent(session: &str, agent: &str) -> Sender {
    Sender {
        session: session.into(),
        agent: agent.into(),
        role: AgentRole::Coagent,
        parent: Some((ROOT.into(), None)),
    }
}

/// A panel, and the time of the events that it takes.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) panel: ActivityPanel,
    millis: i64,
}

impl Script {
    pub(super) fn new(glyphs: Glyphs) -> Self {
        Self { panel: ActivityPanel::new(glyphs), millis: 1_700_000_000_000 }
    }

    /// Returns a panel after the beginning of a run and its first turn.
    pub(super) fn turn() -> Self {
        let mut script = Self::new(Glyphs::Unicode);
        script.run();
        script
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.millis).unwrap()
    }

    pub(super) fn wait(&mut self, millis: i64) -> &mut Self {
        self.millis += millis;
        self
    }

    /// Takes an event of an agent.
    pub(super) fn by(&mut self, sender: &Sender, event: AgentEvent) -> &mut Self {
        let envelope = envelope(sender, self.now(), event);
        self.panel.on_event(&envelope);
        self
    }

    /// Takes an event of the root.
    pub(super) fn on(&mut self, event: AgentEvent) -> &mut Self {
        self.by(&root(), event)
    }

    pub(super) fn run(&mut self) -> &mut Self {
        self.on(run_start()).on(input()).on(turn_start())
    }

    /// Returns true while a run of the root is active.
    pub(super) fn is_busy(&self) -> bool {
        self.panel.root_progress().is_some()
    }

    /// Returns the rows as text.
    pub(super) fn rows(&self, columns: usize, rows: usize) -> Vec<String> {
        let lines = self.panel.rows(self.now(), ActivitySpace { columns, rows });
        lines.iter().map(StyledLine::text).collect()
    }

    /// Returns the rows in 80 and 40 columns, with the right border of each.
    pub(super) fn screen(&self, rows: usize) -> String {
        let framed = [80, 40].into_iter().flat_map(|columns| {
            self.rows(columns, rows).into_iter().map(move |row| pad(&row, columns))
        });
        framed.collect::<Vec<_>>().join("\n")
    }
}

fn pad(row: &str, columns: usize) -> String {
    let width = crow_console::wrap::width(row);
    format!("{row}{}|", " ".repeat(columns.saturating_sub(width)))
}

pub(super) fn envelope(sender: &Sender, time: Timestamp, event: AgentEvent) -> Envelope {
    Envelope {
        seq: None,
        time,
        session_id: SessionId::new(sender.session.as_str()),
        root_id: SessionId::new(ROOT),
        agent: sender.agent.clone(),
        role: sender.role,
        parent: sender.parent.as_ref().map(|(session, call)| ParentCall {
            session_id: SessionId::new(session.as_str()),
            call_id: call.as_deref().map(CallId::new),
        }),
        round: 1,
        event,
    }
}

// The events that the tests need, in short.

pub(super) fn run_start() -> AgentEvent {
    AgentEvent::RunStart { run_id: RunId::new("run"), settings: None }
}

pub(super) fn run_end() -> AgentEvent {
    AgentEvent::RunEnd {
        run_id: RunId::new("run"),
        result: RunOutcome::NeedsInput,
        assessment: None,
    }
}

pub(super) fn input() -> AgentEvent {
    AgentEvent::UserInput {
        message_id: MessageId::new("m"),
        source: InputSource::Prompt,
        context: None,
        content: Vec::new(),
    }
}

pub(super) fn turn_start() -> AgentEvent {
    AgentEvent::TurnStart { turn: 1 }
}

pub(super) fn turn_end() -> AgentEvent {
    AgentEvent::TurnComplete { turn: 1, end: TurnEnd::Text }
}

pub(super) fn processing() -> AgentEvent {
    AgentEvent::StateChange { state: AgentState::Processing }
}

pub(super) fn thinking(offset: u64, delta: &str) -> AgentEvent {
    AgentEvent::ThinkingDelta { reply_id: ReplyId::new("r"), offset, delta: delta.into() }
}

pub(super) fn text(offset: u64, delta: &str) -> AgentEvent {
    AgentEvent::TextDelta { reply_id: ReplyId::new("r"), offset, delta: delta.into() }
}

pub(super) fn reply() -> AgentEvent {
    AgentEvent::Reply {
        reply_id: ReplyId::new("r"),
        blocks: Vec::new(),
        stop: StopReason::ToolUse,
        origin: Origin {
            dialect: "messages".into(),
            provider: "p".into(),
            base_url: "https://example.test".into(),
            model: "m".into(),
        },
        response_id: None,
    }
}

pub(super) fn usage(output_tokens: u64) -> AgentEvent {
    AgentEvent::Usage {
        reply_id: ReplyId::new("r"),
        usage: TokenUsage { output_tokens, ..TokenUsage::default() },
        estimated: false,
        prefix: None,
        timing: None,
        request_bytes: None,
    }
}

pub(super) fn retry(attempt: u32, wait_ms: u64) -> AgentEvent {
    let mut error = ProviderError::new(ProviderErrorKind::RateLimited, "slow down");
    error.status = Some(429);
    AgentEvent::ReplyReset { reply_id: ReplyId::new("r"), error, attempt, wait_ms }
}

pub(super) fn pending(call: &str, title: &str) -> AgentEvent {
    AgentEvent::CallPending {
        call_id: CallId::new(call),
        tool: "bash".into(),
        title: title.into(),
        arguments: Value::Null,
        preview: None,
    }
}

pub(super) fn start(call: &str, title: &str) -> AgentEvent {
    AgentEvent::CallStart {
        call_id: CallId::new(call),
        reply_id: ReplyId::new("r"),
        tool: "bash".into(),
        title: title.into(),
        arguments: Value::Null,
        snapshot: None,
    }
}

pub(super) fn progress(call: &str, output: &str) -> AgentEvent {
    AgentEvent::CallProgress { call_id: CallId::new(call), output: output.into() }
}

pub(super) fn call_wait(call: &str, reason: &str) -> AgentEvent {
    AgentEvent::CallWait { call_id: CallId::new(call), reason: reason.into() }
}

pub(super) fn end(call: &str) -> AgentEvent {
    end_with(call, &Value::Null)
}

/// Returns the end of a call with this metadata of its tool.
pub(super) fn end_with(call: &str, extra: &Value) -> AgentEvent {
    let mut result = ToolResult::success("done");
    result.metadata.extra = extra.clone();
    AgentEvent::CallEnd {
        call_id: CallId::new(call),
        reply_id: ReplyId::new("r"),
        tool: "bash".into(),
        result,
        denial: None,
    }
}

pub(super) fn job_start(call: &str, job: &str) -> AgentEvent {
    end_with(call, &json!({ "job_id": job }))
}

pub(super) fn permission_request(request: &str, call: &str) -> AgentEvent {
    AgentEvent::PermissionRequest {
        request_id: RequestId::new(request),
        call_id: CallId::new(call),
        tool: "bash".into(),
        title: "rm -r build".into(),
        subject: Subject::Nothing,
        reason: "it deletes files".into(),
        offers: Vec::new(),
    }
}

pub(super) fn permission_withdrawn(request: &str, call: &str) -> AgentEvent {
    AgentEvent::PermissionWithdrawn {
        request_id: RequestId::new(request),
        call_id: CallId::new(call),
    }
}

pub(super) fn question(request: &str, call: &str) -> AgentEvent {
    AgentEvent::QuestionAsked {
        request_id: RequestId::new(request),
        call_id: CallId::new(call),
        question: UserQuestion {
            text: "Which?".into(),
            header: None,
            choices: Vec::new(),
            multiple: false,
            free_text: true,
        },
    }
}

pub(super) fn subagent_start(child: &Sender, task: &str) -> AgentEvent {
    AgentEvent::SubagentStart {
        parent: "builder".into(),
        subagent: child.agent.clone(),
        child_id: SessionId::new(child.session.as_str()),
        task: task.into(),
    }
}

pub(super) fn subagent_end(child: &Sender) -> AgentEvent {
    AgentEvent::SubagentEnd {
        parent: "builder".into(),
        subagent: child.agent.clone(),
        child_id: SessionId::new(child.session.as_str()),
        result: "found".into(),
    }
}

pub(super) fn review_start(agent: &str) -> AgentEvent {
    AgentEvent::CoagentStart { primary: "builder".into(), coagent: agent.into() }
}

pub(super) fn review_end(agent: &str) -> AgentEvent {
    AgentEvent::CoagentEnd { primary: "builder".into(), coagent: agent.into() }
}

/// Returns a plan. Items begin with `x` if they are done and with `>` if they are in progress.
pub(super) fn plan(items: &[&str]) -> AgentEvent {
    let items = items.iter().map(|item| {
        let (status, content) = match item.split_at(1) {
            ("x", content) => (TodoStatus::Completed, content),
            (">", content) => (TodoStatus::InProgress, content),
            _ => (TodoStatus::Pending, *item),
        };
        let active_form = (status == TodoStatus::InProgress).then(|| format!("Now: {content}"));
        TodoItem { content: content.to_owned(), status, active_form }
    });
    AgentEvent::Plan { items: items.collect() }
}
