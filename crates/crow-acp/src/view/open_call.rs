//! View of a call that has not ended for the client.

use agent_client_protocol::v1::schema::{
    MessageId, SessionId as AcpSessionId, SessionUpdate, ToolCallContent, ToolCallId,
    ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};
use crow_core::ids::{CallId, SessionId};
use serde_json::{Map, Value};

use super::{
    content::{EscapeFilter, fenced, keep_tail, prose, tail},
    event::{Attribution, SessionUpdateOut},
    tool_display::{ResultDisplay, ToolDisplay, terminal_output},
};

/// Limit of the output that is shown while a command runs, in bytes.
const LIVE_OUTPUT: usize = 16 * 1024;
/// Limit of the text that is shown while an agent works, in bytes.
const LIVE_PROSE: usize = 32 * 1024;
/// Number of last steps that are shown while an agent works.
const LIVE_STEPS: usize = 12;
/// Limit of streamed output that is kept, in bytes, to find the part of the result that is new.
const REMEMBERED: usize = 256 * 1024;

/// Key of a call: the session of its agent, and the id of the call in it.
pub(super) type CallKeyInView = (SessionId, CallId);

/// A call that has not ended for the client.
#[derive(Debug)]
pub(super) struct OpenCallView {
    pub(super) key: CallKeyInView,
    pub(super) id: ToolCallId,
    pub(super) session: AcpSessionId,
    pub(super) who: Attribution,
    pub(super) title: String,
    pub(super) showing: ToolDisplay,
    pub(super) status: ToolCallStatus,
    /// True if its output is shown in a terminal.
    pub(super) in_terminal: bool,
    /// First item of its content: a command of which the title shows only a part.
    pub(super) head: Option<ToolCallContent>,
    /// Content as the client has it.
    pub(super) content: Vec<ToolCallContent>,
    /// Content without the items that are shown while it waits for an answer or for its turn.
    without_wait: Option<Vec<ToolCallContent>>,
    /// End of its output so far.
    pub(super) output: String,
    harmless: EscapeFilter,
    /// End of the text of the agent that works in it.
    text: String,
    /// Message to which the end of that text belongs.
    text_message: Option<MessageId>,
    steps: Vec<String>,
    /// True if its progress was not sent yet.
    is_behind: bool,
}

impl OpenCallView {
    pub(super) fn new(
        key: CallKeyInView,
        id: ToolCallId,
        session: AcpSessionId,
        who: Attribution,
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
            harmless: EscapeFilter::default(),
            text: String::new(),
            text_message: None,
            steps: Vec::new(),
            is_behind: false,
        }
    }

    /// Builds an update with more keys under `_meta.crow`.
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

    /// Replaces the content while it waits by what `shown` makes of the content without waiting items. Returns the
    /// content.
    pub(super) fn set_waiting_content(
        &mut self,
        shown: impl FnOnce(Vec<ToolCallContent>) -> Vec<ToolCallContent>,
    ) -> Vec<ToolCallContent> {
        let before = self.without_wait.get_or_insert_with(|| self.content.clone());
        self.content = shown(before.clone());
        self.content.clone()
    }

    /// Marks it as running, and removes the items that were shown while it waited. `None` if it runs already.
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

    /// Adds output. Returns the update for a terminal; without one, the output waits for [`catch_up`](Self::catch_up).
    pub(super) fn add_output(&mut self, output: &str) -> Option<SessionUpdateOut> {
        let output = self.harmless.push(output);
        if output.is_empty() {
            return None;
        }
        self.output.push_str(&output);
        keep_tail(&mut self.output, REMEMBERED);
        if self.in_terminal {
            let meta = terminal_output(&self.id, &output, self.who.meta());
            return Some(self.update_with(ToolCallUpdateFields::new(), meta));
        }
        self.is_behind = true;
        None
    }

    /// Adds text of the agent that works in it.
    pub(super) fn add_text(&mut self, message: &MessageId, text: &str) {
        if self.text_message.as_ref() != Some(message) {
            if !self.text.is_empty() {
                self.text.push_str("\n\n");
            }
            self.text_message = Some(message.clone());
        }
        self.text.push_str(text);
        keep_tail(&mut self.text, 2 * LIVE_PROSE);
        self.is_behind = true;
    }

    /// Adds a step of the agent that works in it.
    pub(super) fn add_step(&mut self, step: String) {
        if self.steps.len() == LIVE_STEPS {
            self.steps.remove(0);
        }
        self.steps.push(step);
        self.is_behind = true;
    }

    /// Returns the text of the agent that works in it.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if an update is due.
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Returns the update with the current progress, if one is due.
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
                if !self.text.is_empty() {
                    content.push(prose(tail(&self.text, LIVE_PROSE)));
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
