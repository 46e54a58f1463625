//! A conversation with a server of the test kit.

use std::{sync::Arc, time::Duration};

use crow_core::{
    ids::{MessageId, ReplyId, SessionId},
    message::{
        AssistantMessage, Block, Message, ResultMessage, ResultsMessage, ToolCall, UserMessage,
    },
    model::{
        Abilities, Conversation, ModelConfig, ModelEvent, ModelInfo, ModelRef, ModelReply,
        ModelRequest, ModelStream, Provider, ProviderError, Retry, ToolCallFormat, ToolChoice,
        ToolDefinition,
    },
};
use crow_providers::{
    ApiKey, ChatVariant, Dialect, Endpoint, HttpClient, HttpProvider, RetryPolicy, Timeouts,
};
use crow_testkit::ModelServer;
use futures_util::StreamExt as _;
use serde_json::json;

/// Dialects of this crate with their counterparts in the test kit.
pub(crate) const DIALECTS: [(Dialect, crow_testkit::WireDialect); 4] = [
    (Dialect::AnthropicMessages, crow_testkit::WireDialect::AnthropicMessages),
    (Dialect::Gemini, crow_testkit::WireDialect::Gemini),
    (Dialect::OpenAiResponses, crow_testkit::WireDialect::OpenAiResponses),
    (Dialect::OpenAiChat(ChatVariant::COMPATIBLE), crow_testkit::WireDialect::OpenAiChat),
];

pub(crate) const KEY: &str = "sk-test-very-secret-key";

/// A conversation, and the parts of its requests that a test may set.
pub(crate) struct Talk {
    pub(crate) conversation: Box<dyn Conversation>,
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) system: String,
    pub(crate) tools: Vec<ToolDefinition>,
    pub(crate) config: ModelConfig,
    pub(crate) tool_choice: ToolChoice<'static>,
}

/// Result of a request.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// All events except the last one.
    pub(crate) events: Vec<ModelEvent>,
    pub(crate) reply: Result<ModelReply, ProviderError>,
}

impl Talk {
    /// Creates a conversation that retries without waits, and that times out after two seconds of silence.
    pub(crate) fn with(
        server: &ModelServer,
        dialect: (Dialect, crow_testkit::WireDialect),
    ) -> Self {
        let patience = Duration::from_secs(2);
        let timeouts = Timeouts { silence: patience, ..Timeouts::default() };
        Self::at(&server.base_url(dialect.1), dialect.0, RetryPolicy::without_waits(3), timeouts)
    }

    pub(crate) fn at(
        base_url: &str,
        dialect: Dialect,
        retry: RetryPolicy,
        timeouts: Timeouts,
    ) -> Self {
        let endpoint = Endpoint {
            provider: "tested".to_owned(),
            dialect,
            base_url: base_url.to_owned(),
            key: ApiKey::new(KEY),
            headers: Vec::new(),
        };
        let provider =
            HttpProvider::with_timeouts(endpoint, HttpClient::default(), retry, timeouts).unwrap();
        Self::of(&provider, &model("test-model"))
    }

    pub(crate) fn of(provider: &dyn Provider, model: &ModelInfo) -> Self {
        Self {
            conversation: provider.conversation(model, &SessionId::new("session-1")),
            messages: vec![user("u1", "Hello")],
            system: "You are terse.".to_owned(),
            tools: vec![tool("read_file"), tool("write_file")],
            config: ModelConfig::default(),
            tool_choice: ToolChoice::Auto,
        }
    }

    /// Sends a request and reads the whole reply.
    pub(crate) async fn ask(&mut self) -> Outcome {
        let mut stream = self.conversation.stream(ModelRequest {
            system: &self.system,
            tools: &self.tools,
            messages: &self.messages,
            config: &self.config,
            tool_choice: self.tool_choice,
        });
        let mut events = Vec::new();
        let mut reply = None;
        while let Some(item) = stream.next().await {
            assert!(reply.is_none(), "{item:?} came after the end");
            match item {
                Ok(ModelEvent::Completed(complete)) => reply = Some(Ok(complete)),
                Ok(event) => events.push(event),
                Err(error) => reply = Some(Err(error)),
            }
        }
        Outcome { events, reply: reply.expect("a stream ends with a reply or an error") }
    }

    /// Sends a request, appends the reply to the history, and answers its calls.
    pub(crate) async fn step(&mut self) -> ModelReply {
        let reply = self.ask().await.reply.unwrap();
        let number = self.messages.len();
        self.push_reply(number, &reply);
        reply
    }

    /// Appends a reply to the history, and answers its calls.
    pub(crate) fn push_reply(&mut self, number: usize, reply: &ModelReply) {
        let calls: Vec<ToolCall> = reply.calls().cloned().collect();
        self.messages.push(Arc::new(Message::Assistant(AssistantMessage {
            id: MessageId::new(format!("a{number}")),
            reply_id: ReplyId::new(format!("r{number}")),
            origin: reply.origin.clone(),
            blocks: reply.blocks.clone(),
        })));
        if calls.is_empty() {
            self.messages.push(user(&format!("u{number}"), "Go on"));
            return;
        }
        let results = calls.into_iter().map(|call| ResultMessage {
            call_id: call.id,
            tool: call.name,
            content: vec![Block::text("done")],
            is_error: false,
        });
        self.messages.push(Arc::new(Message::Results(ResultsMessage {
            id: MessageId::new(format!("t{number}")),
            results: results.collect(),
        })));
    }
}

impl Outcome {
    pub(crate) fn error(self) -> ProviderError {
        self.reply.expect_err("the request fails")
    }

    /// Returns the text that was streamed since the last retry.
    pub(crate) fn streamed_text(&self) -> String {
        let mut text = String::new();
        for event in &self.events {
            match event {
                ModelEvent::TextDelta(more) => text.push_str(more),
                ModelEvent::Retrying(_) => text.clear(),
                ModelEvent::ThinkingDelta(_)
                | ModelEvent::CallStarted { .. }
                | ModelEvent::Accepted { .. }
                | ModelEvent::Waiting(_)
                | ModelEvent::Warning(_)
                | ModelEvent::Completed(_) => {}
            }
        }
        text
    }

    pub(crate) fn retries(&self) -> Vec<&Retry> {
        let retries = self.events.iter().filter_map(|event| match event {
            ModelEvent::Retrying(retry) => Some(retry),
            ModelEvent::TextDelta(_)
            | ModelEvent::ThinkingDelta(_)
            | ModelEvent::CallStarted { .. }
            | ModelEvent::Accepted { .. }
            | ModelEvent::Waiting(_)
            | ModelEvent::Warning(_)
            | ModelEvent::Completed(_) => None,
        });
        retries.collect()
    }

    /// Returns the names of the calls that were started.
    pub(crate) fn started(&self) -> Vec<&str> {
        let names = self.events.iter().filter_map(|event| match event {
            ModelEvent::CallStarted { name } => Some(name.as_str()),
            ModelEvent::TextDelta(_)
            | ModelEvent::ThinkingDelta(_)
            | ModelEvent::Accepted { .. }
            | ModelEvent::Waiting(_)
            | ModelEvent::Warning(_)
            | ModelEvent::Retrying(_)
            | ModelEvent::Completed(_) => None,
        });
        names.collect()
    }

    /// Returns the warnings for the user.
    pub(crate) fn warnings(&self) -> Vec<&str> {
        let texts = self.events.iter().filter_map(|event| match event {
            ModelEvent::Warning(text) => Some(text.as_str()),
            ModelEvent::TextDelta(_)
            | ModelEvent::ThinkingDelta(_)
            | ModelEvent::CallStarted { .. }
            | ModelEvent::Accepted { .. }
            | ModelEvent::Waiting(_)
            | ModelEvent::Retrying(_)
            | ModelEvent::Completed(_) => None,
        });
        texts.collect()
    }
}

/// Returns the next item of a stream but that the request was accepted.
pub(crate) async fn next_part(stream: &mut ModelStream) -> ModelEvent {
    loop {
        match stream.next().await.unwrap().unwrap() {
            ModelEvent::Accepted { .. } => {}
            event => return event,
        }
    }
}

pub(crate) fn model(name: &str) -> ModelInfo {
    ModelInfo {
        reference: ModelRef { provider: "tested".to_owned(), model: name.to_owned() },
        context_window: None,
        max_output_tokens: None,
        abilities: Abilities { tools: true, vision: true, thinking: true },
        tool_calls: Some(ToolCallFormat::Native),
    }
}

pub(crate) fn user(id: &str, text: &str) -> Arc<Message> {
    Arc::new(Message::User(UserMessage {
        id: MessageId::new(id),
        content: vec![Block::text(text)],
    }))
}

pub(crate) fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: format!("Does {name}."),
        parameters: json!({
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
        }),
    }
}
