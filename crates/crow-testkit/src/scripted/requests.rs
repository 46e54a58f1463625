//! What a scripted model was asked, and whether it was asked rightly.

use std::sync::Arc;

use crow_core::{
    ids::{MessageId, SessionId},
    message::{Block, Message},
    model::{ModelRequest, Thinking, ToolChoice},
    tool::SOURCED_NAME,
};

/// What a request said of calls, see [`ToolChoice`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeenToolChoice {
    /// As the model likes.
    Auto,
    /// Not at all.
    None,
    /// Some tool.
    Any,
    /// This tool.
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

/// A request that a scripted model saw.
#[derive(Debug, Clone)]
pub struct SeenRequest {
    /// The session that asked.
    pub session: SessionId,
    /// The system prompt.
    pub system: String,
    /// The names of the tools.
    pub tools: Vec<String>,
    /// The messages.
    pub messages: Vec<Arc<Message>>,
    /// Whether it might call tools, or had to.
    pub tool_choice: SeenToolChoice,
    /// How much it might think; none where that is left to it.
    pub thinking: Option<Thinking>,
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
        }
    }

    /// Fails unless every call has exactly one result in the message after it, and no result stands alone.
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

    /// Fails unless the earlier request is the beginning of this one.
    pub(super) fn check_prefix(&self, earlier: &Self) {
        assert_eq!(self.system, earlier.system, "the system prompt changed");
        // Those from a source come and go, and the log says so.
        let own = |request: &Self| {
            let names = request.tools.iter().filter(|name| !name.starts_with(SOURCED_NAME));
            names.cloned().collect::<Vec<_>>()
        };
        assert_eq!(own(self), own(earlier), "the tools changed");
        let ids = |request: &Self| {
            request.messages.iter().map(|message| message.id().clone()).collect::<Vec<MessageId>>()
        };
        assert!(ids(self).starts_with(&ids(earlier)), "the history was changed before its end");
    }

    /// Writes the messages as short lines, for comparing.
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
