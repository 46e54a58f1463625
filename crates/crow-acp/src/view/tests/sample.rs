//! Made-up sessions, clients and files.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use agent_client_protocol::{
    schema::ProtocolVersion,
    v1::schema::{InitializeRequest, SessionNotification},
};
use crow_core::{
    event::{AgentEvent, AgentRole, Envelope, InputSource, ParentCall},
    ids::{CallId, MessageId, ReplyId, SessionId, SnapshotId},
    message::{Block, CallArguments, Origin, ReplyBlock, ReplyContent, ToolCall},
    model::StopReason,
    permission::Denial,
    tool::ToolResult,
};
use serde_json::{Value, json};

use crate::view::{
    ClientAbilities, EventSource, SessionUpdateOut, SessionView,
    contents::{DiffContent, FileReader, NoContents},
};

pub(super) const ROOT: &str = "root";
pub(super) const CWD: &str = "/p";

/// Returns a client that declares no capabilities.
pub(super) fn bare() -> ClientAbilities {
    ClientAbilities::default()
}

/// Returns a client with the capabilities that Zed declares.
pub(super) fn zed() -> ClientAbilities {
    client(&json!({
        "fs": {"readTextFile": true, "writeTextFile": true},
        "terminal": true,
        "session": {"configOptions": {"boolean": {}}},
        "auth": {"terminal": true},
        "elicitation": {"form": {}, "url": {}},
        "_meta": {"terminal_output": true, "terminal-auth": true},
    }))
}

/// Returns a client that shows notices and sessions of agents.
pub(super) fn everything() -> ClientAbilities {
    client(&json!({
        "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
        "subagents": {},
        "elicitation": {"form": {}, "url": {}},
    }))
}

pub(super) fn client(capabilities: &Value) -> ClientAbilities {
    let capabilities = serde_json::from_value(capabilities.clone()).unwrap();
    let request = InitializeRequest::new(ProtocolVersion::V1).client_capabilities(capabilities);
    ClientAbilities::from(&request)
}

pub(super) fn view(abilities: ClientAbilities) -> SessionView {
    view_with(abilities, Arc::new(NoContents))
}

pub(super) fn view_with(abilities: ClientAbilities, contents: Arc<dyn FileReader>) -> SessionView {
    SessionView::new(abilities, SessionId::new(ROOT), CWD.into(), contents)
}

/// File contents that a test defines.
#[derive(Debug, Default)]
pub(super) struct Files {
    snapshots: BTreeMap<(String, String), DiffContent>,
    disk: BTreeMap<String, DiffContent>,
}

impl Files {
    pub(super) fn captured(mut self, snapshot: &str, path: &str, text: DiffContent) -> Self {
        self.snapshots.insert((snapshot.into(), path.into()), text);
        self
    }

    pub(super) fn on_disk(mut self, path: &str, text: &str) -> Self {
        self.disk.insert(path.into(), DiffContent::Known(text.into()));
        self
    }
}

impl FileReader for Files {
    fn in_snapshot(&self, snapshot: &SnapshotId, path: &Path) -> DiffContent {
        let key = (snapshot.as_str().to_owned(), path.display().to_string());
        self.snapshots.get(&key).cloned().unwrap_or(DiffContent::Unknown)
    }

    fn now(&self, path: &Path) -> DiffContent {
        self.disk.get(&path.display().to_string()).cloned().unwrap_or(DiffContent::Absent)
    }
}

/// A sequence of events, in the order in which they are emitted.
#[derive(Debug, Clone)]
pub(super) struct Story {
    pub(super) events: Vec<Envelope>,
    pub(super) round: u32,
    seq: u64,
    speaker: Speaker,
}

#[derive(Debug, Clone)]
struct Speaker {
    session: String,
    agent: String,
    role: AgentRole,
    parent: Option<ParentCall>,
}

impl Story {
    pub(super) fn new() -> Self {
        let mut story = Self { events: Vec::new(), round: 1, seq: 0, speaker: Speaker::primary() };
        let model = "p/m".to_owned();
        story.tell(AgentEvent::SessionStart {
            format_version: 1,
            model,
            cwd: CWD.into(),
            settings: None,
        });
        story
    }

    pub(super) fn tell(&mut self, event: AgentEvent) -> &mut Self {
        let is_durable = event.is_durable();
        self.seq += u64::from(is_durable);
        self.events.push(Envelope {
            seq: is_durable.then_some(self.seq),
            time: "2026-11-22T12:00:00Z".parse().unwrap(),
            session_id: SessionId::new(self.speaker.session.as_str()),
            root_id: SessionId::new(ROOT),
            agent: self.speaker.agent.clone(),
            role: self.speaker.role,
            parent: self.speaker.parent.clone(),
            round: self.round,
            event,
        });
        self
    }

    /// Makes the primary the agent of the following events.
    pub(super) fn primary(&mut self) -> &mut Self {
        self.speaker = Speaker::primary();
        self
    }

    /// Makes a coagent of the primary the agent of the following events.
    pub(super) fn coagent(&mut self, agent: &str) -> &mut Self {
        let parent = ParentCall { session_id: SessionId::new(ROOT), call_id: None };
        self.child(agent, AgentRole::Coagent, parent)
    }

    /// Makes a subagent that a call of the primary started the agent of the following events.
    pub(super) fn subagent(&mut self, agent: &str, call: &str) -> &mut Self {
        let call_id = Some(CallId::new(call));
        let parent = ParentCall { session_id: SessionId::new(ROOT), call_id };
        self.child(agent, AgentRole::Subagent, parent)
    }

    fn child(&mut self, agent: &str, role: AgentRole, parent: ParentCall) -> &mut Self {
        let (session, agent) = (format!("child-{agent}"), agent.to_owned());
        self.speaker = Speaker { session, agent, role, parent: Some(parent) };
        self
    }

    pub(super) fn input(&mut self, source: InputSource, text: &str) -> &mut Self {
        let message_id = MessageId::new(format!("message-{}", self.seq));
        let content = vec![Block::text(text)];
        self.tell(AgentEvent::UserInput { message_id, source, context: None, content })
    }

    /// Adds a reply whose text arrives in deltas, and which asks for calls.
    pub(super) fn reply(
        &mut self,
        id: &str,
        text: &[&str],
        calls: &[(&str, &str, Value)],
    ) -> &mut Self {
        let mut offset = 0;
        for delta in text {
            self.text_delta(id, offset, delta);
            offset += delta.len() as u64;
        }
        self.whole_reply(id, &text.concat(), calls)
    }

    pub(super) fn text_delta(&mut self, id: &str, offset: u64, delta: &str) -> &mut Self {
        let (reply_id, delta) = (ReplyId::new(id), delta.to_owned());
        self.tell(AgentEvent::TextDelta { reply_id, offset, delta })
    }

    pub(super) fn thinking_delta(&mut self, id: &str, offset: u64, delta: &str) -> &mut Self {
        let (reply_id, delta) = (ReplyId::new(id), delta.to_owned());
        self.tell(AgentEvent::ThinkingDelta { reply_id, offset, delta })
    }

    pub(super) fn whole_reply(
        &mut self,
        id: &str,
        text: &str,
        calls: &[(&str, &str, Value)],
    ) -> &mut Self {
        let text = ReplyContent::Text { text: text.to_owned() };
        let calls = calls.iter().map(|(id, name, arguments)| {
            ReplyContent::Call(ToolCall {
                id: CallId::new(*id),
                name: (*name).to_owned(),
                arguments: CallArguments::Json(arguments.clone()),
            })
        });
        self.blocks(id, std::iter::once(text).chain(calls).collect())
    }

    pub(super) fn blocks(&mut self, id: &str, blocks: Vec<ReplyContent>) -> &mut Self {
        let origin = Origin {
            dialect: "messages".into(),
            provider: "p".into(),
            base_url: "https://example.test".into(),
            model: "m".into(),
        };
        let blocks = blocks.into_iter().map(ReplyBlock::without_native_item).collect();
        let (reply_id, stop) = (ReplyId::new(id), StopReason::EndTurn);
        self.tell(AgentEvent::Reply { reply_id, blocks, stop, origin, response_id: None })
    }

    pub(super) fn pending(
        &mut self,
        id: &str,
        tool: &str,
        title: &str,
        arguments: Value,
    ) -> &mut Self {
        self.tell(AgentEvent::CallPending {
            call_id: CallId::new(id),
            tool: tool.into(),
            title: title.into(),
            arguments,
            preview: None,
        })
    }

    pub(super) fn start(
        &mut self,
        id: &str,
        tool: &str,
        title: &str,
        arguments: Value,
    ) -> &mut Self {
        self.tell(AgentEvent::CallStart {
            call_id: CallId::new(id),
            reply_id: ReplyId::new("r"),
            tool: tool.into(),
            title: title.into(),
            arguments,
            snapshot: None,
        })
    }

    /// Adds a call that is allowed and starts.
    pub(super) fn begin(
        &mut self,
        id: &str,
        tool: &str,
        title: &str,
        arguments: Value,
    ) -> &mut Self {
        self.pending(id, tool, title, arguments.clone()).start(id, tool, title, arguments)
    }

    pub(super) fn progress(&mut self, id: &str, output: &str) -> &mut Self {
        let (call_id, output) = (CallId::new(id), output.to_owned());
        self.tell(AgentEvent::CallProgress { call_id, output })
    }

    pub(super) fn end(&mut self, id: &str, tool: &str, result: ToolResult) -> &mut Self {
        self.ended(id, tool, result, None)
    }

    pub(super) fn ended(
        &mut self,
        id: &str,
        tool: &str,
        result: ToolResult,
        denial: Option<Denial>,
    ) -> &mut Self {
        self.tell(AgentEvent::CallEnd {
            call_id: CallId::new(id),
            reply_id: ReplyId::new("r"),
            tool: tool.into(),
            result,
            denial,
        })
    }

    /// Returns the events that the logs contain.
    pub(super) fn durable(&self) -> Vec<Envelope> {
        self.events.iter().filter(|envelope| envelope.seq.is_some()).cloned().collect()
    }

    /// Returns the updates of a live client.
    pub(super) fn live(&self, view: &mut SessionView) -> Vec<SessionUpdateOut> {
        show(view, &self.events, EventSource::Live)
    }

    /// Returns the updates of a client that loads the session.
    pub(super) fn replay(&self, view: &mut SessionView) -> Vec<SessionUpdateOut> {
        show(view, &self.durable(), EventSource::Replayed)
    }
}

impl Speaker {
    fn primary() -> Self {
        let (session, agent) = (ROOT.to_owned(), "builder".to_owned());
        Self { session, agent, role: AgentRole::Primary, parent: None }
    }
}

pub(super) fn show(
    view: &mut SessionView,
    events: &[Envelope],
    source: EventSource,
) -> Vec<SessionUpdateOut> {
    let mut out = Vec::new();
    for envelope in events {
        view.on_event(envelope, source, &mut out);
    }
    view.flush(&mut out);
    out
}

/// Returns the updates as they go over the wire, one per line.
pub(super) fn lines(out: &[SessionUpdateOut]) -> String {
    let lines = out.iter().map(|outgoing| {
        let notification = SessionNotification::from(outgoing.clone());
        serde_json::to_string(&notification).unwrap()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the updates as JSON values, without the session.
pub(super) fn updates(out: &[SessionUpdateOut]) -> Vec<Value> {
    out.iter().map(|outgoing| serde_json::to_value(&outgoing.update).unwrap()).collect()
}
