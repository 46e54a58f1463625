//! What can be saved of a log in which lines are lost.

use std::{collections::BTreeSet, fmt, path::PathBuf};

use crow_core::{
    event::{AgentEvent, Envelope, FORMAT_VERSION, NoticeAudience, NoticeLevel},
    history::{History, HistoryError},
    ids::{CallId, ReplyId},
    message::{CallArguments, Origin, ReplyBlock, ReplyContent, ToolCall},
    model::{ModelRef, StopReason},
    settings::SessionSettings,
    tool::ToolResult,
};
use serde_json::Map;

use super::{SessionMetadata, StoredSession, log_file::LostEvent};

/// A line of a log that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostLine {
    /// Its number, the first being 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

/// What of a session is damaged on the disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Damage {
    /// Why the header had to be made from the log, if it had to.
    pub header: Option<String>,
    /// The lines of the log that are lost, in their order.
    pub lines: Vec<LostLine>,
}

impl Damage {
    /// Returns whether all is whole.
    pub fn is_none(&self) -> bool {
        self.header.is_none() && self.lines.is_empty()
    }
}

/// `the header is damaged; lines 5, 9 of the log are damaged`.
impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<usize> = self.lines.iter().map(|lost| lost.line).collect();
        match (&self.header, numbers.is_empty()) {
            (None, true) => f.write_str("nothing is damaged"),
            (Some(_), true) => f.write_str("the header is damaged"),
            (None, false) => f.write_str(&lines_are_damaged(&numbers)),
            (Some(_), false) => {
                write!(f, "the header is damaged; {}", lines_are_damaged(&numbers))
            }
        }
    }
}

/// How many numbers of lines are told.
const NUMBERS: usize = 8;

fn lines_are_damaged(numbers: &[usize]) -> String {
    let told: Vec<String> = numbers.iter().take(NUMBERS).map(usize::to_string).collect();
    let told = told.join(", ");
    match numbers.len() {
        1 => format!("line {told} of the log is damaged"),
        count if count > NUMBERS => {
            format!("{count} lines of the log ({told} and more) are damaged")
        }
        _ => format!("lines {told} of the log are damaged"),
    }
}

/// Mends a log in which lines are lost, so that it can be folded like a whole one: notices stand where lines are lost, a
/// reply that is lost is made of its calls, the start of a call of its end, and a result that is lost says so.
pub(super) fn mend(
    events: Vec<Envelope>,
    lost: &[LostEvent],
    header: Option<&SessionMetadata>,
) -> Vec<Envelope> {
    if lost.is_empty() {
        return events;
    }
    let mut mender = LogSalvage::default();
    if let Some(first) = events.first() {
        mender.begin(first, lost, header);
    }
    let mut lost = lost.iter().peekable();
    for (index, line) in events.iter().enumerate() {
        let mut numbers = Vec::new();
        while let Some(gap) = lost.next_if(|gap| gap.before <= index) {
            numbers.push(gap.line.line);
        }
        mender.notice(line, &numbers);
        // What cannot be taken answers a call that is not known, or one that has its answer.
        if let Err(error) = mender.take(line, events.get(index..).unwrap_or_default()) {
            tracing::warn!(session = %line.session_id, %error, "a line of a damaged log is left out");
        }
    }
    let numbers: Vec<usize> = lost.map(|gap| gap.line.line).collect();
    if let Some(last) = events.last() {
        mender.notice(last, &numbers);
    }
    mender.mended
}

impl StoredSession {
    /// Folds the log. Lines that contradict those before them are damaged as well: they are left out, and what they break
    /// is mended.
    pub(crate) fn fold(&mut self) -> Result<History, HistoryError> {
        match History::from_log(&self.events) {
            Ok(history) => return Ok(history),
            Err(error) => {
                tracing::warn!(session = %self.metadata.session_id, %error, "a log contradicts itself");
            }
        }
        let mut mender = LogSalvage::default();
        for (index, line) in self.events.iter().enumerate() {
            let left_out = mender.take(line, self.events.get(index..).unwrap_or_default());
            if let Err(error) = left_out {
                let earlier =
                    self.damage.lines.iter().filter(|lost| lost.line <= index + 1).count();
                let reason = error.to_string();
                self.damage.lines.push(LostLine { line: index + 1 + earlier, reason });
                mender.notice(line, &[index + 1 + earlier]);
            }
        }
        self.events = mender.mended;
        self.damage.lines.sort_by_key(|lost| lost.line);
        History::from_log(&self.events)
    }
}

#[derive(Debug, Default)]
struct LogSalvage {
    mended: Vec<Envelope>,
    history: History,
    replies: BTreeSet<ReplyId>,
    started: BTreeSet<CallId>,
    origin: Option<Origin>,
}

impl LogSalvage {
    /// Makes the first line, where it is lost.
    fn begin(&mut self, first: &Envelope, lost: &[LostEvent], header: Option<&SessionMetadata>) {
        if matches!(first.event, AgentEvent::SessionStart { .. }) {
            return;
        }
        let line = lost.iter().find(|gap| gap.before == 0);
        let start = match header {
            Some(header) => Some(AgentEvent::SessionStart {
                format_version: header.crow().format_version,
                model: header.model_ref().to_string(),
                cwd: header.crow().cwd,
                settings: settings_of(header),
            }),
            None => line.and_then(|line| {
                Some(AgentEvent::SessionStart {
                    format_version: line.member("format_version").unwrap_or(FORMAT_VERSION),
                    model: line.member("model")?,
                    cwd: line.member::<PathBuf>("cwd")?,
                    settings: line.member("settings"),
                })
            }),
        };
        if let Some(start) = start {
            let time = line.and_then(|line| line.member("time"));
            let created = header.map(|header| header.created_at).or(time);
            self.add(first, start);
            if let (Some(made), Some(created)) = (self.mended.last_mut(), created) {
                made.time = created;
            }
        }
    }

    /// Tells the user and the model where lines are lost.
    fn notice(&mut self, beside: &Envelope, numbers: &[usize]) {
        if numbers.is_empty() {
            return;
        }
        let text =
            format!("{}: what happened here in the session is lost", lines_are_damaged(numbers));
        for audience in [NoticeAudience::User, NoticeAudience::Model] {
            let event =
                AgentEvent::Notice { level: NoticeLevel::Warning, audience, text: text.clone() };
            self.push(Envelope { seq: None, ..envelope(beside, event) });
        }
    }

    /// Takes a whole line, after what it needs before it. `rest` begins with it.
    fn take(&mut self, line: &Envelope, rest: &[Envelope]) -> Result<(), HistoryError> {
        if let AgentEvent::Reply { reply_id, origin, .. } = &line.event {
            self.replies.insert(reply_id.clone());
            self.origin = Some(origin.clone());
        }
        if let AgentEvent::Usage { reply_id, .. }
        | AgentEvent::CallStart { reply_id, .. }
        | AgentEvent::CallEnd { reply_id, .. } = &line.event
            && !self.replies.contains(reply_id)
        {
            self.replies.insert(reply_id.clone());
            self.close(line);
            let reply = self.reply(reply_id, rest);
            self.add(line, reply);
        }
        if let AgentEvent::CallStart { call_id, .. } = &line.event {
            self.started.insert(call_id.clone());
        }
        if let AgentEvent::CallEnd { call_id, reply_id, tool, result, .. } = &line.event
            && !self.started.remove(call_id)
            && let Some(snapshot) = &result.metadata.snapshot_before
        {
            let start = AgentEvent::CallStart {
                call_id: call_id.clone(),
                reply_id: reply_id.clone(),
                tool: tool.clone(),
                title: tool.clone(),
                arguments: Map::new().into(),
                snapshot: Some(snapshot.clone()),
            };
            self.add(line, start);
        }
        if let Err(HistoryError::CallsOpen { .. } | HistoryError::RewindWithOpenCalls) =
            self.history.accepts(&line.event)
        {
            self.close(line);
        }
        self.history.apply(line)?;
        self.mended.push(line.clone());
        Ok(())
    }

    /// Makes a reply of the calls that came of it.
    fn reply(&self, reply_id: &ReplyId, rest: &[Envelope]) -> AgentEvent {
        let mut calls: Vec<ToolCall> = Vec::new();
        for line in rest {
            let start =
                if let AgentEvent::CallStart { call_id, reply_id, tool, arguments, .. } =
                    &line.event
                {
                    Some((call_id, reply_id, tool, arguments.clone()))
                } else if let AgentEvent::CallEnd { call_id, reply_id, tool, .. } = &line.event {
                    Some((call_id, reply_id, tool, Map::new().into()))
                } else {
                    None
                };
            let Some((call_id, of, tool, arguments)) = start else { continue };
            if of == reply_id && calls.iter().all(|call| call.id != *call_id) {
                calls.push(ToolCall {
                    id: call_id.clone(),
                    name: tool.clone(),
                    arguments: CallArguments::Json(arguments),
                });
            }
        }
        let stop = if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        let mut blocks: Vec<_> =
            calls.into_iter().map(|call| ReplyBlock::plain(ReplyContent::Call(call))).collect();
        if blocks.is_empty() {
            let text = "[This reply is lost: the log of the session is damaged.]".to_owned();
            blocks.push(ReplyBlock::plain(ReplyContent::Text { text }));
        }
        AgentEvent::Reply {
            reply_id: reply_id.clone(),
            blocks,
            stop,
            origin: self.origin.clone().unwrap_or_else(|| self.first_origin()),
            response_id: None,
        }
    }

    /// The model that the session began with.
    fn first_origin(&self) -> Origin {
        let model = self.mended.first().and_then(|first| {
            let AgentEvent::SessionStart { model, .. } = &first.event else { return None };
            model.parse::<ModelRef>().ok()
        });
        let (provider, model) =
            model.map_or_else(Default::default, |model| (model.provider, model.model));
        Origin { dialect: String::new(), provider, base_url: String::new(), model }
    }

    /// Answers the calls whose results are lost.
    fn close(&mut self, beside: &Envelope) {
        let Some(reply_id) = self.history.open_reply().cloned() else { return };
        for call in self.history.open_calls() {
            let mut result = ToolResult::failure(
                "The result of this call is lost: the log of the session was damaged. The call may have had effects.",
            );
            result.metadata.snapshot_before = call.snapshot;
            result.metadata.shared = true;
            let end = AgentEvent::CallEnd {
                call_id: call.call_id,
                reply_id: reply_id.clone(),
                tool: call.tool,
                result,
                denial: None,
            };
            self.add(beside, end);
        }
    }

    /// Adds a line that was lost, with a number that is free before the next one.
    fn add(&mut self, next: &Envelope, event: AgentEvent) {
        let free = self.history.last_seq() + 1;
        let seq = Some(free).filter(|free| Some(*free) < next.seq);
        self.push(Envelope { seq, ..envelope(next, event) });
    }

    fn push(&mut self, line: Envelope) {
        if let Err(error) = self.history.apply(&line) {
            tracing::warn!(session = %line.session_id, %error, "a line of a damaged log is left out");
            return;
        }
        self.mended.push(line);
    }
}

/// Returns what a root session goes on with, where its header knows.
fn settings_of(header: &SessionMetadata) -> Option<Box<SessionSettings>> {
    let crow = header.crow();
    let knows = header.parent_session_id.is_none() && !crow.agent_lost;
    knows.then(|| Box::new(crow.settings()))
}

/// Makes a line of the same session and time.
fn envelope(beside: &Envelope, event: AgentEvent) -> Envelope {
    Envelope {
        seq: None,
        time: beside.time,
        session_id: beside.session_id.clone(),
        root_id: beside.root_id.clone(),
        agent: beside.agent.clone(),
        role: beside.role,
        parent: beside.parent.clone(),
        round: beside.round,
        event,
    }
}
