//! The events of one session as messages to the page.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    path::Path,
    sync::Arc,
};

use crow_core::{
    event::{AgentEvent, AgentState, Envelope},
    ids::{CallId, ReplyId, SessionId},
    redact::Redactor,
};
use crow_runtime::{AgentHandle, Observer, ObserverItem, OpenReply, SessionStore};
use crow_telemetry::report::TranscriptRenderer;
use crow_text::{neutralise, shorten};
use jiff::tz::TimeZone;

use crate::{
    hosted::{HostedSessions, state_of},
    message::{LiveMessage, PermissionEntry, QuestionEntry, call_key, reply_key},
    stored_log::{StoredItem, StoredLog},
};

/// Maximum number of earlier events that are shown when a page opens a session.
const MAX_EARLIER: usize = 600;
/// Maximum length of the output of a running call that is sent at once, in bytes: the end is kept.
const MAX_OUTPUT: usize = 64 * 1024;
/// Maximum length of the title of a running call, in bytes.
const MAX_TITLE: usize = 160;
/// Number of events after which others get their turn: a long log is taken without waiting.
const EVENTS_IN_A_ROW: u32 = 64;

/// Follows one session for one page.
#[derive(Debug)]
pub(crate) struct SessionFeed {
    source: FeedSource,
    transcript: TranscriptRenderer,
    /// The entries before the page is up to date; `None` from then on.
    earlier: Option<EarlierEntries>,
    /// Name and class of the agents, by session.
    speakers: HashMap<SessionId, Speaker>,
    /// How much of each open reply was sent, by session: an agent has at most one.
    open_replies: HashMap<SessionId, OpenReplyProgress>,
    open_calls: BTreeMap<(SessionId, CallId), LiveMessage>,
    usage_changed: bool,
    /// Events that were taken since others had their turn.
    in_a_row: u32,
}

#[derive(Debug)]
enum FeedSource {
    Hosted { handle: AgentHandle, observer: Box<Observer> },
    Stored(Box<StoredLog>),
}

/// Entries that are collected until the log is read.
#[derive(Debug)]
struct EarlierEntries {
    /// Number of the last event of the log when the page opened the session.
    until: u64,
    events: VecDeque<Envelope>,
    /// True if there were more.
    is_cut: bool,
}

#[derive(Debug, Clone)]
struct Speaker {
    agent: String,
    class: String,
}

/// Bytes of an open reply that were sent.
#[derive(Debug)]
struct OpenReplyProgress {
    reply: ReplyId,
    text: u64,
    thinking: u64,
}

impl SessionFeed {
    /// Follows a session: the agent of this process, if there is one, else its log.
    pub(crate) fn new(
        id: &SessionId,
        hosted: &HostedSessions,
        store: &Arc<dyn SessionStore>,
        redactor: &Redactor,
        (zone, cwd): (TimeZone, &Path),
    ) -> Self {
        let (source, until) = if let Some(handle) = hosted.get(id) {
            let observer = Box::new(handle.subscribe_after(0));
            let until = handle.last_seq();
            (FeedSource::Hosted { handle, observer }, until)
        } else {
            let log = StoredLog::new(Arc::clone(store), id.clone(), redactor.clone());
            (FeedSource::Stored(Box::new(log)), u64::MAX)
        };
        Self {
            source,
            transcript: TranscriptRenderer::new(zone, cwd),
            earlier: Some(EarlierEntries { until, events: VecDeque::new(), is_cut: false }),
            speakers: HashMap::new(),
            open_replies: HashMap::new(),
            open_calls: BTreeMap::new(),
            usage_changed: true,
            in_a_row: 0,
        }
    }

    /// Returns the agent that is followed, if this process runs it.
    pub(crate) fn handle(&self) -> Option<&AgentHandle> {
        match &self.source {
            FeedSource::Hosted { handle, .. } => Some(handle),
            FeedSource::Stored(_) => None,
        }
    }

    /// Waits for the next event and returns its messages, which may be none; `None` when the agent has ended.
    /// Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Vec<LiveMessage>> {
        if self.in_a_row >= EVENTS_IN_A_ROW {
            // Nothing is lost if this is the end of the future: no event was taken yet.
            self.in_a_row = 0;
            tokio::task::yield_now().await;
        }
        let mut messages = Vec::new();
        match &mut self.source {
            FeedSource::Hosted { observer, .. } => {
                match observer.next().await? {
                    ObserverItem::Event(line) => self.event(&line, &mut messages),
                    ObserverItem::OpenReply(reply) => {
                        self.catch_up(&mut messages);
                        self.open_reply(&reply, &mut messages);
                    }
                    ObserverItem::Lagged { missed } => {
                        // Questions, states and starts of calls may be among them.
                        messages.push(LiveMessage::Skipped { missed });
                        if self.earlier.is_none() {
                            self.under_way(&mut messages);
                        }
                        self.usage_changed = true;
                    }
                    ObserverItem::Lost(error) => {
                        messages.push(LiveMessage::Lost { reason: neutralise(&error.to_string()) });
                        if self.earlier.is_some() {
                            // The logs that can be read follow, if there are some; the page can be used meanwhile.
                            let html = String::new();
                            messages.push(LiveMessage::History {
                                html,
                                is_cut: true,
                                is_hosted: true,
                            });
                            self.under_way(&mut messages);
                        }
                    }
                }
            }
            FeedSource::Stored(log) => match log.next().await {
                StoredItem::Event(line) => self.event(&line, &mut messages),
                StoredItem::CaughtUp => self.catch_up(&mut messages),
                StoredItem::Unreadable(error) => {
                    messages.push(LiveMessage::Lost { reason: neutralise(&error.to_string()) });
                }
                StoredItem::Gone => return None,
            },
        }
        self.in_a_row += 1;
        Some(messages)
    }

    /// Returns true if the usage of the session changed since the last call.
    pub(crate) fn take_usage_changed(&mut self) -> bool {
        std::mem::take(&mut self.usage_changed)
    }

    /// Sends the earlier entries, if that is still to be done, and what is under way.
    fn catch_up(&mut self, messages: &mut Vec<LiveMessage>) {
        let Some(earlier) = self.earlier.take() else { return };
        let mut html = String::new();
        for mut line in earlier.events {
            if let Some(handle) = self.handle() {
                // A log may be older than a secret.
                handle.redactor().redact_event(&mut line.event);
            }
            html.push_str(&self.transcript.render(&line));
        }
        let is_hosted = self.handle().is_some();
        messages.push(LiveMessage::History { html, is_cut: earlier.is_cut, is_hosted });
        self.under_way(messages);
    }

    /// Sends what is under way: running calls, and of an agent of this process its state and questions.
    fn under_way(&mut self, messages: &mut Vec<LiveMessage>) {
        // Without its writer, a call that has no end is not running.
        let has_writer = match &self.source {
            FeedSource::Hosted { .. } => true,
            FeedSource::Stored(log) => log.has_writer(),
        };
        if has_writer {
            messages.extend(self.open_calls.values().cloned());
        }
        if let Some(handle) = self.handle() {
            messages.push(state_message(handle));
            messages.push(self.questions());
        }
    }

    fn event(&mut self, line: &Envelope, messages: &mut Vec<LiveMessage>) {
        let until = self.earlier.as_ref().map(|earlier| earlier.until);
        // An event of an agent that is not in the log came after all that are. In a followed log, one without a number
        // stands in the place of a damaged line.
        let is_live = matches!(self.source, FeedSource::Hosted { .. });
        if until.is_some_and(|until| line.seq.map_or(is_live, |seq| seq > until)) {
            self.catch_up(messages);
        }
        let class = self.transcript.agent_class(line);
        let agent = neutralise(&line.agent);
        self.speakers.insert(line.session_id.clone(), Speaker { agent, class });
        self.entry(line, messages);
        if self.earlier.is_none() {
            self.live(line, messages);
        }
        if let (Some(until), Some(seq)) = (until, line.seq)
            && seq >= until
        {
            self.catch_up(messages);
        }
    }

    /// Handles what becomes part of the transcript, and keeps account of open calls and replies.
    fn entry(&mut self, line: &Envelope, messages: &mut Vec<LiveMessage>) {
        let replaces = match &line.event {
            AgentEvent::CallStart { call_id, tool, title, .. } => {
                let message = LiveMessage::CallStart {
                    key: call_key(&line.session_id, call_id),
                    class: self.transcript.agent_class(line),
                    tool: neutralise(tool),
                    title: shorten(&neutralise(title), MAX_TITLE),
                };
                self.open_calls.insert((line.session_id.clone(), call_id.clone()), message.clone());
                if self.earlier.is_none() {
                    messages.push(message);
                }
                None
            }
            AgentEvent::CallEnd { call_id, .. } => {
                self.open_calls.remove(&(line.session_id.clone(), call_id.clone()));
                Some(call_key(&line.session_id, call_id))
            }
            AgentEvent::Reply { reply_id, .. } => {
                self.open_replies.remove(&line.session_id);
                Some(reply_key(reply_id))
            }
            AgentEvent::RunStart { .. } | AgentEvent::RunEnd { .. } => {
                // Nothing of the root's descendants is left between its runs.
                let session = (!line.is_root()).then_some(&line.session_id);
                self.end_open_parts(session, messages);
                None
            }
            _ => None,
        };
        if let Some(earlier) = &mut self.earlier {
            earlier.events.push_back(line.clone());
            if earlier.events.len() > MAX_EARLIER
                && let Some(skipped) = earlier.events.pop_front()
            {
                self.transcript.skip(&skipped);
                earlier.is_cut = true;
            }
            return;
        }
        let html = self.transcript.render(line);
        if !html.is_empty() || replaces.is_some() {
            messages.push(LiveMessage::Entry { html, replaces });
        }
    }

    /// Ends the calls and replies of an agent, or of all agents, that are still open: a cancelled run leaves some.
    fn end_open_parts(&mut self, session: Option<&SessionId>, messages: &mut Vec<LiveMessage>) {
        let is_ended = |owner: &SessionId| session.is_none_or(|session| session == owner);
        let mut keys = Vec::new();
        self.open_calls.retain(|(owner, call), _| {
            if is_ended(owner) {
                keys.push(call_key(owner, call));
            }
            !is_ended(owner)
        });
        self.open_replies.retain(|owner, open| {
            if is_ended(owner) {
                keys.push(reply_key(&open.reply));
            }
            !is_ended(owner)
        });
        if self.earlier.is_none() {
            messages.extend(keys.into_iter().map(|key| LiveMessage::PartEnd { key }));
        }
    }

    /// Handles what only matters while it happens.
    fn live(&mut self, line: &Envelope, messages: &mut Vec<LiveMessage>) {
        match &line.event {
            AgentEvent::TextDelta { reply_id, offset, delta } => {
                self.delta(line, reply_id, (*offset, delta), false, messages);
            }
            AgentEvent::ThinkingDelta { reply_id, offset, delta } => {
                self.delta(line, reply_id, (*offset, delta), true, messages);
            }
            AgentEvent::ReplyReset { reply_id, error, .. } => {
                self.open_replies.remove(&line.session_id);
                let (key, reason) = (reply_key(reply_id), neutralise(&error.to_string()));
                messages.push(LiveMessage::ReplyReset { key, reason });
            }
            AgentEvent::CallProgress { call_id, output } => {
                let key = call_key(&line.session_id, call_id);
                let from = output.ceil_char_boundary(output.len().saturating_sub(MAX_OUTPUT));
                let output = neutralise(output.get(from..).unwrap_or_default());
                messages.push(LiveMessage::CallOutput { key, output });
            }
            AgentEvent::StateChange { .. } | AgentEvent::RunEnd { .. } if line.is_root() => {
                messages.extend(self.handle().map(state_message));
            }
            AgentEvent::Usage { .. } => self.usage_changed = true,
            AgentEvent::PermissionRequest { .. }
            | AgentEvent::PermissionDecision { .. }
            | AgentEvent::PermissionWithdrawn { .. }
            | AgentEvent::QuestionAsked { .. }
            | AgentEvent::QuestionAnswered { .. }
            | AgentEvent::QuestionWithdrawn { .. } => {
                messages.push(self.questions());
                messages.extend(self.handle().map(state_message));
            }
            _ => {}
        }
    }

    /// Sends the part of a delta that was not sent yet.
    fn delta(
        &mut self,
        line: &Envelope,
        reply: &ReplyId,
        (offset, delta): (u64, &str),
        is_thinking: bool,
        messages: &mut Vec<LiveMessage>,
    ) {
        let progress = self
            .open_replies
            .entry(line.session_id.clone())
            .and_modify(|progress| progress.begin(reply))
            .or_insert_with(|| OpenReplyProgress::new(reply));
        let sent = if is_thinking { &mut progress.thinking } else { &mut progress.text };
        let end = offset + delta.len() as u64;
        if end <= *sent {
            return;
        }
        let known = usize::try_from(sent.saturating_sub(offset)).unwrap_or(usize::MAX);
        let fresh = delta.get(known..).unwrap_or(delta);
        *sent = end;
        self.reply_text(&line.session_id, reply, fresh, is_thinking, messages);
    }

    fn open_reply(&mut self, open: &OpenReply, messages: &mut Vec<LiveMessage>) {
        let OpenReply { session_id, reply_id, text, thinking } = open;
        // The page may have shown a part of it before it fell behind.
        messages.push(LiveMessage::ReplyReset { key: reply_key(reply_id), reason: String::new() });
        let progress = OpenReplyProgress {
            reply: reply_id.clone(),
            text: text.len() as u64,
            thinking: thinking.len() as u64,
        };
        self.open_replies.insert(session_id.clone(), progress);
        for (text, is_thinking) in [(thinking, true), (text, false)] {
            if !text.is_empty() {
                self.reply_text(session_id, reply_id, text, is_thinking, messages);
            }
        }
    }

    fn reply_text(
        &self,
        session: &SessionId,
        reply: &ReplyId,
        text: &str,
        is_thinking: bool,
        messages: &mut Vec<LiveMessage>,
    ) {
        let speaker = self.speakers.get(session);
        messages.push(LiveMessage::ReplyText {
            key: reply_key(reply),
            agent: speaker.map(|speaker| speaker.agent.clone()).unwrap_or_default(),
            class: speaker.map(|speaker| speaker.class.clone()).unwrap_or_default(),
            is_thinking,
            text: neutralise(text),
        });
    }

    /// Returns all open questions.
    fn questions(&mut self) -> LiveMessage {
        let (permissions, questions) = match self.handle() {
            Some(handle) => (handle.open_questions(), handle.open_user_questions()),
            None => (Vec::new(), Vec::new()),
        };
        let permissions = permissions.into_iter().map(|request| {
            let change = request.preview.as_ref().map(|preview| &preview.patch);
            let html = change.map(|patch| self.transcript.render_patch(patch)).unwrap_or_default();
            PermissionEntry::new(request, html)
        });
        LiveMessage::Questions {
            permissions: permissions.collect(),
            questions: questions.into_iter().map(QuestionEntry::from).collect(),
        }
    }
}

impl OpenReplyProgress {
    fn new(reply: &ReplyId) -> Self {
        Self { reply: reply.clone(), text: 0, thinking: 0 }
    }

    /// Starts again if another reply is open now.
    fn begin(&mut self, reply: &ReplyId) {
        if self.reply != *reply {
            *self = Self::new(reply);
        }
    }
}

fn state_message(handle: &AgentHandle) -> LiveMessage {
    let detail = match handle.state() {
        AgentState::ExecutingTool(tool) => format!("runs {}", neutralise(&tool)),
        AgentState::WaitingForSubagent(_) => "waits for a subagent".to_owned(),
        AgentState::Processing => "waits for the model".to_owned(),
        AgentState::WaitingForPermission => "waits for your answer".to_owned(),
        AgentState::Error(error) => neutralise(&error),
        AgentState::Idle | AgentState::Done => String::new(),
    };
    LiveMessage::State { state: state_of(handle), detail }
}
