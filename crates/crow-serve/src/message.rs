//! Messages of the event stream of a page.

use crow_core::{
    capability::{PermissionRequest, QuestionChoice, QuestionRequest, UserQuestion},
    ids::{ReplyId, RequestId, SessionId},
    tool::Subject,
};
use crow_text::{neutralise, shorten};
use jiff::Timestamp;
use serde::Serialize;

/// A message to the page. Members named `html` are markup in which all text is escaped; all others are text.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum LiveMessage {
    /// Sessions that are new in the list or changed, and those that left it.
    Sessions { changed: Vec<SessionEntry>, removed: Vec<SessionId> },
    /// The transcript so far, which replaces what the page shows of it.
    History {
        html: String,
        /// True if `html` does not begin with the session.
        is_cut: bool,
        /// True if the session can be talked to through this server.
        is_hosted: bool,
    },
    /// The next entry of the transcript. It replaces the open reply or the open call with that key, if there is one.
    Entry {
        html: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        replaces: Option<String>,
    },
    /// More text of an open reply.
    ReplyText { key: String, agent: String, class: String, is_thinking: bool, text: String },
    /// An open reply or call ended without an entry.
    PartEnd { key: String },
    /// An open reply is discarded: the request is sent again.
    ReplyReset { key: String, reason: String },
    /// A call began to run.
    CallStart { key: String, class: String, tool: String, title: String },
    /// A running call printed something.
    CallOutput { key: String, output: String },
    /// The state of the root agent.
    State { state: SessionActivity, detail: String },
    /// The open questions, all of them.
    Questions { permissions: Vec<PermissionEntry>, questions: Vec<QuestionEntry> },
    /// Tokens in the context window, and the cost of the session.
    Usage { context_tokens: u64, context_window: Option<u64>, cost_usd: Option<f64> },
    /// Events between logged ones were skipped because the page was slow.
    Skipped { missed: u64 },
    /// A part of the log cannot be read.
    Lost { reason: String },
}

/// The state of a session in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SessionActivity {
    /// Its agent waits for a prompt.
    Idle,
    /// Its agent works.
    Working,
    /// A question of its agents is open.
    Asking,
    /// Another program runs it.
    Elsewhere,
    /// No agent runs in it.
    Stored,
}

/// A session in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SessionEntry {
    pub id: SessionId,
    pub title: String,
    pub cwd: String,
    pub agent: String,
    pub model: String,
    pub state: SessionActivity,
    pub updated: Timestamp,
}

/// A question whether a call may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PermissionEntry {
    pub id: RequestId,
    pub agent: String,
    pub tool: String,
    pub title: String,
    pub subject: String,
    pub reason: String,
    /// Labels of the offers to allow calls for the rest of the session, in their order.
    pub offers: Vec<String>,
    /// The change that the call would make; empty if it is not known.
    pub html: String,
}

/// A question of an agent to the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct QuestionEntry {
    pub id: RequestId,
    pub agent: String,
    pub header: String,
    pub text: String,
    /// The choices, in the order of the question.
    pub choices: Vec<ChoiceEntry>,
    /// True if several may be chosen.
    pub multiple: bool,
    /// True if the user may write an answer.
    pub free_text: bool,
}

/// A choice of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ChoiceEntry {
    pub label: String,
    pub description: String,
}

impl PermissionEntry {
    /// Creates an entry. `html` is the rendered preview of the call.
    pub(crate) fn new(request: PermissionRequest, html: String) -> Self {
        let subject = match &request.subject {
            Subject::Nothing => String::new(),
            Subject::Path(path) => path.display().to_string(),
            Subject::Command(line) => line.text.clone(),
            Subject::Host(host) => host.to_string(),
        };
        Self {
            id: request.id,
            agent: text_for_page(&request.agent),
            tool: text_for_page(&request.tool),
            title: text_for_page(&request.title),
            subject: text_for_page(&subject),
            reason: text_for_page(&request.reason),
            offers: request.offers.iter().map(|offer| text_for_page(&offer.label)).collect(),
            html,
        }
    }
}

impl From<QuestionRequest> for QuestionEntry {
    fn from(request: QuestionRequest) -> Self {
        let UserQuestion { text, header, choices, multiple, free_text } = request.question;
        let choice = |choice: QuestionChoice| ChoiceEntry {
            label: text_for_page(&choice.label),
            description: text_for_page(&choice.description.unwrap_or_default()),
        };
        Self {
            id: request.id,
            agent: text_for_page(&request.agent),
            header: text_for_page(&header.unwrap_or_default()),
            text: text_for_page(&text),
            choices: choices.into_iter().map(choice).collect(),
            multiple,
            free_text,
        }
    }
}

/// Maximum length of a text of a question, an option or an error, in bytes.
const MAX_TEXT: usize = 20_000;

/// Makes a text harmless, and short enough to be shown.
pub(crate) fn text_for_page(text: &str) -> String {
    shorten(&neutralise(text), MAX_TEXT)
}

/// Names an open reply within the page.
pub(crate) fn reply_key(reply: &ReplyId) -> String {
    format!("reply:{reply}")
}

/// Names an open call within the page: ids of calls are unique only in their session.
pub(crate) fn call_key(session: &SessionId, call: &crow_core::ids::CallId) -> String {
    format!("call:{session}:{call}")
}

impl LiveMessage {
    /// Returns the message as an event of a stream of server-sent events. JSON has no line breaks of its own.
    pub(crate) fn to_event(&self) -> String {
        match serde_json::to_string(self) {
            Ok(json) => format!("data: {json}\n\n"),
            Err(error) => {
                tracing::error!(%error, "a message to the page cannot be serialized");
                String::new()
            }
        }
    }
}
