//! Mending of logs: turns a log with lost lines, or one that contradicts itself, into events that fold into a valid
//! history.
//!
//! [`LogSalvage`] replays the readable events into a history and inserts what is missing: a session start, a reply
//! rebuilt from its calls, a call start, failed results for calls left open, and a notice at each gap. An inserted
//! event takes the number of a lost one if a number is free between its neighbours, and none otherwise. The result
//! always folds.

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

/// An unreadable line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostLine {
    /// The line number, starting at 1.
    pub line: usize,
    /// Description of the error.
    pub reason: String,
}

/// Damage of a session on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Damage {
    /// The error that forced the header to be rebuilt from the log.
    pub header: Option<String>,
    /// The lost lines of the log, in file order.
    pub lines: Vec<LostLine>,
}

impl Damage {
    /// Returns true if nothing is damaged.
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

/// Maximum number of line numbers in a text.
const NUMBERS: usize = 8;

fn lines_are_damaged(numbers: &[usize]) -> String {
    let listed: Vec<String> = numbers.iter().take(NUMBERS).map(usize::to_string).collect();
    let listed = listed.join(", ");
    match numbers.len() {
        1 => format!("line {listed} of the log is damaged"),
        count if count > NUMBERS => {
            format!("{count} lines of the log ({listed} and more) are damaged")
        }
        _ => format!("lines {listed} of the log are damaged"),
    }
}

/// Mends a log with lost lines so that it folds into a history. Inserts notices at the gaps and rebuilds missing
/// events: a reply from its calls, the start of a call from its end, and a failed result for a call without one.
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
    // Each readable line is preceded by a notice for the lines lost just before it.
    let mut lost = lost.iter().peekable();
    for (index, line) in events.iter().enumerate() {
        let mut numbers = Vec::new();
        while let Some(gap) = lost.next_if(|gap| gap.before <= index) {
            numbers.push(gap.line.line);
        }
        mender.notice(line, &numbers);
        // An event that does not apply answers an unknown call, or one that is answered already.
        if let Err(error) = mender.take(line, &events[index..]) {
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
    /// Folds the log. Lines that contradict earlier ones count as damaged: they are left out, and events that depend on
    /// them are mended.
    pub(crate) fn fold(&mut self) -> Result<History, HistoryError> {
        match History::from_log(&self.events) {
            Ok(history) => return Ok(history),
            Err(error) => {
                tracing::warn!(session = %self.metadata.session_id, %error, "a log contradicts itself");
            }
        }
        let mut mender = LogSalvage::default();
        for (index, line) in self.events.iter().enumerate() {
            let left_out = mender.take(line, &self.events[index..]);
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
    /// Inserts a session start if the first line is lost: from the header, or else from the readable members of the
    /// lost line.
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

    /// Inserts notices for the user and the model about the lost lines.
    fn notice(&mut self, beside: &Envelope, numbers: &[usize]) {
        if numbers.is_empty() {
            return;
        }
        let text = format!("{}: this part of the session is lost", lines_are_damaged(numbers));
        for audience in [NoticeAudience::User, NoticeAudience::Model] {
            let event =
                AgentEvent::Notice { level: NoticeLevel::Warning, audience, text: text.clone() };
            self.push(Envelope { seq: None, ..envelope(beside, event) });
        }
    }

    /// Applies a readable line after inserting the events that must precede it. `rest` is the log from this line on.
    fn take(&mut self, line: &Envelope, rest: &[Envelope]) -> Result<(), HistoryError> {
        if let AgentEvent::Reply { reply_id, origin, .. } = &line.event {
            self.replies.insert(reply_id.clone());
            self.origin = Some(origin.clone());
        }
        // 1) The reply that this event belongs to is lost.
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
        // 2) The start of a call that could change files is lost.
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
        // 3) Results of open calls are lost.
        if let Err(HistoryError::CallsOpen { .. } | HistoryError::RewindWithOpenCalls) =
            self.history.check_next(&line.event)
        {
            self.close(line);
        }
        self.history.apply(line)?;
        self.mended.push(line.clone());
        Ok(())
    }

    /// Rebuilds a reply from the starts and ends of its calls in `rest`.
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
            let Some((call_id, owner, tool, arguments)) = start else { continue };
            if owner == reply_id && calls.iter().all(|call| call.id != *call_id) {
                calls.push(ToolCall {
                    id: call_id.clone(),
                    name: tool.clone(),
                    arguments: CallArguments::Json(arguments),
                });
            }
        }
        let stop = if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        // The text of the reply is lost; its calls must exist, because results refer to them.
        let mut blocks: Vec<_> = calls
            .into_iter()
            .map(|call| ReplyBlock::without_native_item(ReplyContent::Call(call)))
            .collect();
        if blocks.is_empty() {
            let text = "[This reply is lost: the log of the session is damaged.]".to_owned();
            blocks.push(ReplyBlock::without_native_item(ReplyContent::Text { text }));
        }
        AgentEvent::Reply {
            reply_id: reply_id.clone(),
            blocks,
            stop,
            origin: self.origin.clone().unwrap_or_else(|| self.first_origin()),
            response_id: None,
        }
    }

    /// Returns the model that the session began with.
    fn first_origin(&self) -> Origin {
        let model = self.mended.first().and_then(|first| {
            let AgentEvent::SessionStart { model, .. } = &first.event else { return None };
            model.parse::<ModelRef>().ok()
        });
        let (provider, model) =
            model.map_or_else(Default::default, |model| (model.provider, model.model));
        Origin { dialect: String::new(), provider, base_url: String::new(), model }
    }

    /// Inserts failed results for the open calls.
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

    /// Inserts an event before `next`, with the next number if that is below the number of `next`.
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

/// Returns the settings of a root session, if its header has them.
fn settings_of(header: &SessionMetadata) -> Option<Box<SessionSettings>> {
    let crow = header.crow();
    let has_settings = header.parent_session_id.is_none() && !crow.agent_lost;
    has_settings.then(|| Box::new(crow.settings()))
}

/// Wraps an event in an envelope with the session and time of `beside`.
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
