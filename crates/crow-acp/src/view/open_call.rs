//! A call that the client sees as under way.

use agent_client_protocol::v1::schema::{
    MessageId, SessionId as AcpSessionId, SessionUpdate, ToolCallContent, ToolCallId,
    ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};
use crow_core::ids::{CallId, SessionId};
use serde_json::{Map, Value};

use super::{
    content::{fenced, prose},
    kind::{ResultDisplay, ToolDisplay},
    outgoing::SessionUpdateOut,
    terminal,
    text::{Harmless, keep_tail, tail},
    who::Who,
};

/// How many bytes of a command's output are shown while it runs.
const LIVE_OUTPUT: usize = 16 * 1024;
/// How many bytes of what an agent says are shown while it works.
const LIVE_PROSE: usize = 32 * 1024;
/// How many of an agent's last steps are shown while it works.
const LIVE_STEPS: usize = 12;
/// How many bytes of streamed output are remembered, to tell what of the result is new.
const REMEMBERED: usize = 256 * 1024;

/// What names a call: the session of its agent, and the call in it.
pub(super) type CallKeyInView = (SessionId, CallId);

/// A call that the client sees as under way.
#[derive(Debug)]
pub(super) struct OpenCallView {
    pub(super) key: CallKeyInView,
    pub(super) id: ToolCallId,
    pub(super) session: AcpSessionId,
    pub(super) who: Who,
    pub(super) title: String,
    pub(super) showing: ToolDisplay,
    pub(super) status: ToolCallStatus,
    /// Whether its output is shown in a terminal.
    pub(super) in_terminal: bool,
    /// What stands first in its content: a command that is longer than a title.
    pub(super) head: Option<ToolCallContent>,
    /// The content as the client has it.
    pub(super) content: Vec<ToolCallContent>,
    /// The content without what is shown while it waits: for an answer, for its turn.
    without_wait: Option<Vec<ToolCallContent>>,
    /// What it printed so far, the end of it.
    pub(super) output: String,
    harmless: Harmless,
    /// What the agent that works below it says, the end of it.
    says: String,
    said_in: Option<MessageId>,
    steps: Vec<String>,
    /// What is shown of its progress is not what was sent.
    is_behind: bool,
}

impl OpenCallView {
    pub(super) fn new(
        key: CallKeyInView,
        id: ToolCallId,
        session: AcpSessionId,
        who: Who,
        (title, showing): (String, ToolDisplay),
    ) -> Self {
        Self {
            key,
            id,
            session,
            who,
            title,
            showing,
            status: ToolCallStatus::Pending,
            in_terminal: false,
            head: None,
            content: Vec::new(),
            without_wait: None,
            output: String::new(),
            harmless: Harmless::default(),
            says: String::new(),
            said_in: None,
            steps: Vec::new(),
            is_behind: false,
        }
    }

    /// Makes an update with what else stands under `_meta.crow`.
    pub(super) fn update(
        &self,
        fields: ToolCallUpdateFields,
        more: Map<String, Value>,
    ) -> SessionUpdateOut {
        self.update_with(fields, self.who.meta_with(more))
    }

    pub(super) fn update_with(
        &self,
        fields: ToolCallUpdateFields,
        meta: Map<String, Value>,
    ) -> SessionUpdateOut {
        let update = ToolCallUpdate::new(self.id.clone(), fields).meta(meta);
        SessionUpdateOut {
            session_id: self.session.clone(),
            update: SessionUpdate::ToolCallUpdate(update),
        }
    }

    /// Takes what is shown while it waits, made of what is shown without that. Returns the content.
    pub(super) fn wait(
        &mut self,
        shown: impl FnOnce(Vec<ToolCallContent>) -> Vec<ToolCallContent>,
    ) -> Vec<ToolCallContent> {
        let before = self.without_wait.get_or_insert_with(|| self.content.clone());
        self.content = shown(before.clone());
        self.content.clone()
    }

    /// Begins to run. What was shown while it waited goes.
    pub(super) fn start(&mut self) -> Option<SessionUpdateOut> {
        if self.status != ToolCallStatus::Pending {
            return None;
        }
        self.status = ToolCallStatus::InProgress;
        let mut fields = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress);
        if let Some(content) = self.without_wait.take().filter(|content| *content != self.content) {
            self.content.clone_from(&content);
            fields = fields.content(content);
        }
        Some(self.update(fields, Map::new()))
    }

    /// Takes what it printed. Where it is shown in a terminal, returns what the client is told at once.
    pub(super) fn print(&mut self, output: &str) -> Option<SessionUpdateOut> {
        let output = self.harmless.push(output);
        if output.is_empty() {
            return None;
        }
        self.output.push_str(&output);
        keep_tail(&mut self.output, REMEMBERED);
        if self.in_terminal {
            let meta = terminal::output(&self.id, &output, self.who.meta());
            return Some(self.update_with(ToolCallUpdateFields::new(), meta));
        }
        self.is_behind = true;
        None
    }

    /// Takes what the agent says that works below it.
    pub(super) fn hear(&mut self, message: &MessageId, text: &str) {
        if self.said_in.as_ref() != Some(message) {
            if !self.says.is_empty() {
                self.says.push_str("\n\n");
            }
            self.said_in = Some(message.clone());
        }
        self.says.push_str(text);
        keep_tail(&mut self.says, 2 * LIVE_PROSE);
        self.is_behind = true;
    }

    /// Takes a step of the agent that works below it.
    pub(super) fn step(&mut self, step: String) {
        if self.steps.len() == LIVE_STEPS {
            self.steps.remove(0);
        }
        self.steps.push(step);
        self.is_behind = true;
    }

    /// Returns what the agent below it said.
    pub(super) fn said(&self) -> &str {
        &self.says
    }

    /// Returns whether an update is due.
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Brings what is shown of its progress up to date.
    pub(super) fn catch_up(&mut self) -> Option<SessionUpdateOut> {
        if !std::mem::take(&mut self.is_behind) {
            return None;
        }
        let mut content: Vec<_> = self.head.iter().cloned().collect();
        match self.showing.body {
            ResultDisplay::Prose => {
                if !self.steps.is_empty() {
                    let steps: Vec<_> = self.steps.iter().map(|step| format!("- {step}")).collect();
                    content.push(prose(&steps.join("\n")));
                }
                if !self.says.is_empty() {
                    content.push(prose(tail(&self.says, LIVE_PROSE)));
                }
            }
            ResultDisplay::Command | ResultDisplay::Change | ResultDisplay::Output => {
                content.push(fenced(tail(&self.output, LIVE_OUTPUT), ""));
            }
        }
        let fields = ToolCallUpdateFields::new().content(content.clone());
        self.content = content;
        Some(self.update(fields, Map::new()))
    }
}
