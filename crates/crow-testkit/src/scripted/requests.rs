//! Requests that a scripted model received, and their checks.

use std::sync::Arc;

use crow_core::{
    ids::{MessageId, SessionId},
    message::{Block, Message},
    model::{ModelRequest, Thinking, ToolChoice},
    tool::SOURCED_NAME,
};

/// The tool that is offered once a compaction left something out.
const RECALL: &str = "recall";

/// Owned form of a request's [`ToolChoice`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeenToolChoice {
    /// The model chooses whether to call a tool.
    Auto,
    /// No tool may be called.
    None,
    /// Some tool must be called.
    Any,
    /// This tool must be called.
    Tool(String),
}

impl From<ToolChoice<'_>> for SeenToolChoice {
    fn from(choice: ToolChoice<'_>) -> Self {
        match choice {
            ToolChoice::Auto => Self::Auto,
            ToolChoice::None => Self::None,
            ToolChoice::Any => Self::Any,
            ToolChoice::Tool(name) => Self::Tool(name.to_owned()),
        }
    }
}

/// A request that a scripted model received.
#[derive(Debug, Clone)]
pub struct SeenRequest {
    /// Session of the request.
    pub session: SessionId,
    /// System prompt.
    pub system: String,
    /// Names of the offered tools.
    pub tools: Vec<String>,
    /// Messages of the conversation.
    pub messages: Vec<Arc<Message>>,
    /// Permission or obligation to call tools.
    pub tool_choice: SeenToolChoice,
    /// Thinking setting; `None` if the model's default applies.
    pub thinking: Option<Thinking>,
    /// The most tokens of the reply; `None` if the model's default applies.
    pub max_tokens: Option<u64>,
}

impl SeenRequest {
    pub(super) fn new(session: SessionId, request: ModelRequest<'_>) -> Self {
        Self {
            session,
            system: request.system.to_owned(),
            tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            messages: request.messages.to_vec(),
            tool_choice: request.tool_choice.into(),
            thinking: request.config.thinking,
            max_tokens: request.config.max_tokens,
        }
    }

    /// Panics unless each call has exactly one result in the next message, in the same order, and each result has a
    /// call.
    pub(super) fn check_pairing(&self) {
        let mut messages = self.messages.iter().peekable();
        while let Some(message) = messages.next() {
            match message.as_ref() {
                Message::Assistant(assistant) => {
                    let calls: Vec<_> = assistant.calls().map(|call| call.id.clone()).collect();
                    let results: Vec<_> = match messages.peek().map(AsRef::as_ref) {
                        Some(Message::Results(results)) => {
                            results.results.iter().map(|result| result.call_id.clone()).collect()
                        }
                        _ => Vec::new(),
                    };
                    assert_eq!(calls, results, "calls and results of {} differ", assistant.id);
                    if !calls.is_empty() {
                        messages.next();
                    }
                }
                Message::Results(results) => panic!("{} answers no call", results.id),
                Message::User(_) => {}
            }
        }
    }

    /// Returns true if it asks for a summary of the conversation.
    pub fn asks_for_summary(&self) -> bool {
        self.messages.last().is_some_and(|message| message.id().as_str() == "summary-instruction")
    }

    /// Returns the ids of messages that a compaction made: summaries, and results with placeholders.
    fn compacted(&self) -> Vec<MessageId> {
        let ids = self.messages.iter().map(|message| message.id());
        ids.filter(|id| id.as_str().starts_with("compaction-") || id.as_str().contains("-masked-"))
            .cloned()
            .collect()
    }

    /// Panics unless this request has the same system prompt and tools as `earlier`, and its messages begin with the
    /// earlier ones or a compaction lies between the two.
    pub(super) fn check_prefix(&self, earlier: &Self) {
        assert_eq!(self.system, earlier.system, "the system prompt changed");
        let is_compacted = self.compacted() != earlier.compacted();
        // Tools from a source may be added and removed; the log records that. A compaction adds `recall`.
        let own = |request: &Self| {
            let is_own = |name: &&String| {
                !(name.starts_with(SOURCED_NAME) || (is_compacted && *name == RECALL))
            };
            request.tools.iter().filter(is_own).cloned().collect::<Vec<_>>()
        };
        assert_eq!(own(self), own(earlier), "the tools changed");
        let ids = |request: &Self| {
            request.messages.iter().map(|message| message.id().clone()).collect::<Vec<MessageId>>()
        };
        let is_transcript = self.asks_for_summary() && self.messages.len() == 1;
        if is_transcript || is_compacted {
            return;
        }
        assert!(ids(self).starts_with(&ids(earlier)), "the history was changed before its end");
    }

    /// Returns one short line per message, for comparisons.
    pub fn outline(&self) -> Vec<String> {
        self.messages.iter().map(|message| outline(message)).collect()
    }
}

fn outline(message: &Message) -> String {
    let text_of = |blocks: &[Block]| {
        let texts = blocks.iter().map(|block| match block {
            Block::Text { text } => text.clone(),
            Block::Image(_) => "[image]".to_owned(),
        });
        texts.collect::<Vec<_>>().join(" | ")
    };
    match message {
        Message::User(user) => format!("user: {}", text_of(&user.content)),
        Message::Assistant(assistant) => {
            let calls: Vec<_> =
                assistant.calls().map(|call| format!("{}({})", call.name, call.id)).collect();
            format!("assistant: {}", calls.join(" "))
        }
        Message::Results(results) => {
            let results = results.results.iter().map(|result| {
                format!(
                    "{}{} {}",
                    result.call_id,
                    if result.is_error { "!" } else { ":" },
                    text_of(&result.content)
                )
            });
            format!("results: {}", results.collect::<Vec<_>>().join(" & "))
        }
    }
}
