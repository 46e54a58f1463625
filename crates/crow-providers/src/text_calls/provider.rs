//! A provider whose models may call tools in text.
//!
//! Text of a reply is passed on as it arrives, up to the first place where a call may begin; the rest waits until the
//! reply is complete. What is shown is therefore always a beginning of the text that the complete reply has.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use crow_core::{
    ids::SessionId,
    message::{Block, Message, ReplyBlock, ReplyContent, ToolCall},
    model::{
        Conversation, ModelEvent, ModelInfo, ModelReply, ModelRequest, ModelStream, Provider,
        ProviderError, StopReason, TextCallNotes, ToolCallFormat, ToolChoice, ToolDefinition,
        WindowAnswer,
    },
};
use futures_util::Stream;

use super::{
    read::{CallScanner, OfferedTools, ReadingPart, TextReading, read_text_calls},
    request::{TextHistory, how_to_call, with_tools},
};
use crate::codec::new_call_id;

/// Any provider, with calls read from the text of replies.
///
/// A model with [`ToolCallFormat::Text`] is sent no tools: the system prompt describes them, and earlier calls and
/// results are text. A model with native calls is asked as before; if its reply has no native call, but text that is
/// unmistakably one, it is read as a call. A call that the model only repeats from a result or a message of the user is
/// not read, so that a file cannot call tools by being quoted. Replies to requests that forbid calls are not read. An obligation to call
/// tools cannot be enforced in text and is ignored there.
///
/// ```
/// use std::sync::Arc;
///
/// use crow_core::model::Provider;
/// use crow_providers::TextCallProvider;
///
/// fn with_text_calls(provider: Arc<dyn Provider>) -> Arc<dyn Provider> {
///     Arc::new(TextCallProvider::new(provider))
/// }
/// ```
#[derive(Debug, Clone)]
pub struct TextCallProvider {
    provider: Arc<dyn Provider>,
}

impl TextCallProvider {
    /// Reads the calls in the replies of a provider.
    pub fn new(provider: Arc<dyn Provider>) -> Self {
        Self { provider }
    }
}

impl Provider for TextCallProvider {
    fn name(&self) -> &str {
        self.provider.name()
    }

    fn context_window<'a>(&'a self, model: &'a ModelInfo) -> WindowAnswer<'a> {
        self.provider.context_window(model)
    }

    fn conversation(&self, model: &ModelInfo, session: &SessionId) -> Box<dyn Conversation> {
        Box::new(TextCallConversation {
            conversation: self.provider.conversation(model, session),
            format: model.tool_calls,
            history: TextHistory::default(),
            tools: Arc::default(),
            prompt: (String::new(), String::new()),
        })
    }
}

struct TextCallConversation {
    conversation: Box<dyn Conversation>,
    format: ToolCallFormat,
    history: TextHistory,
    /// The tools of the last request.
    tools: Arc<[ToolDefinition]>,
    /// The system prompt of the last request, and with the tools.
    prompt: (String, String),
}

impl TextCallConversation {
    /// Stores tools and system prompt if they have changed.
    fn update(&mut self, request: ModelRequest<'_>) {
        let has_changed = *self.tools != *request.tools;
        if has_changed {
            self.tools = request.tools.into();
        }
        let is_text = self.format == ToolCallFormat::Text;
        let lacks_prompt = self.prompt.1.is_empty();
        if is_text && (has_changed || lacks_prompt || self.prompt.0 != request.system) {
            let prompt = with_tools(request.system, request.tools);
            self.prompt = (request.system.to_owned(), prompt);
        }
    }
}

impl Conversation for TextCallConversation {
    fn stream(&mut self, request: ModelRequest<'_>) -> ModelStream {
        self.update(request);
        let reply = match self.format {
            ToolCallFormat::Native => self.conversation.stream(request),
            ToolCallFormat::Text => self.conversation.stream(ModelRequest {
                system: &self.prompt.1,
                tools: &[],
                messages: self.history.messages(request.messages),
                tool_choice: ToolChoice::Auto,
                ..request
            }),
        };
        if request.tools.is_empty() || request.tool_choice == ToolChoice::None {
            return reply;
        }
        Box::pin(TextCallStream {
            reply,
            tools: Arc::clone(&self.tools),
            messages: request.messages.to_vec(),
            format: self.format,
            shown: ShownText::new(self.format),
            pending: VecDeque::new(),
        })
    }
}

/// Reads the calls in a reply's text.
struct TextCallStream {
    reply: ModelStream,
    tools: Arc<[ToolDefinition]>,
    /// The messages of the request.
    messages: Vec<Arc<Message>>,
    format: ToolCallFormat,
    shown: ShownText,
    /// Events to pass on before the next one of the reply.
    pending: VecDeque<ModelEvent>,
}

impl TextCallStream {
    fn on_event(&mut self, event: ModelEvent) {
        match event {
            ModelEvent::TextDelta(delta) => {
                let was_withheld = self.shown.is_withheld;
                let delta = self.shown.push(&delta);
                self.push_text(delta);
                if self.shown.is_withheld && !was_withheld {
                    self.pending.push_back(ModelEvent::CallStarted { name: String::new() });
                }
            }
            ModelEvent::CallStarted { name } => {
                // With a native call the text is nothing but text.
                let rest = self.shown.release();
                self.push_text(rest);
                self.pending.push_back(ModelEvent::CallStarted { name });
            }
            ModelEvent::Retrying(retry) => {
                self.shown = ShownText::new(self.format);
                self.pending.push_back(ModelEvent::Retrying(retry));
            }
            ModelEvent::Completed(reply) => self.on_completed(reply),
            event @ (ModelEvent::ThinkingDelta(_) | ModelEvent::Waiting(_)) => {
                self.pending.push_back(event);
            }
        }
    }

    fn on_completed(&mut self, reply: ModelReply) {
        if reply.calls().next().is_some() {
            let rest = self.shown.release();
            self.push_text(rest);
            return self.pending.push_back(ModelEvent::Completed(reply));
        }
        // 1) What was withheld of the streamed text.
        let streamed = self.read(&self.shown.text);
        for part in &streamed.parts {
            if let ReadingPart::Thinking(text) = part {
                self.pending.push_back(ModelEvent::ThinkingDelta(text.clone()));
            }
        }
        let rest = self.shown.rest_of(&streamed.visible_text());
        self.push_text(rest);
        // 2) The reply itself, whose text is usually the same.
        let text = text_of(&reply);
        let reading = if text == self.shown.text { streamed } else { self.read(&text) };
        let reply = with_reading(reply, reading, self.format);
        self.pending.push_back(ModelEvent::Completed(reply));
    }

    fn read(&self, text: &str) -> TextReading {
        let is_quotation = |piece: &str| self.messages.iter().any(|message| says(message, piece));
        read_text_calls(text, OfferedTools(&self.tools), self.format, &is_quotation)
    }

    fn push_text(&mut self, text: String) {
        if !text.is_empty() {
            self.pending.push_back(ModelEvent::TextDelta(text));
        }
    }
}

impl Stream for TextCallStream {
    type Item = Result<ModelEvent, ProviderError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            match ready!(self.reply.as_mut().poll_next(cx)) {
                Some(Ok(event)) => self.on_event(event),
                Some(Err(error)) => {
                    return Poll::Ready(Some(Err(with_advice(error, &self.tools, self.format))));
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

/// The streamed text and what of it was passed on.
#[derive(Debug)]
struct ShownText {
    text: String,
    scanner: CallScanner,
    /// Number of bytes that were passed on.
    length: usize,
    /// True once a call may have begun: nothing more is passed on before the end.
    is_withheld: bool,
    /// True once everything is passed on, because there is a native call.
    is_released: bool,
}

impl ShownText {
    fn new(format: ToolCallFormat) -> Self {
        Self {
            text: String::new(),
            scanner: CallScanner::new(format),
            length: 0,
            is_withheld: false,
            is_released: false,
        }
    }

    /// Takes a delta and returns the text to pass on.
    fn push(&mut self, delta: &str) -> String {
        self.text.push_str(delta);
        if self.is_released {
            self.length = self.text.len();
            return delta.to_owned();
        }
        if !self.is_withheld {
            self.is_withheld = self.scanner.reaches_place(&self.text);
        }
        // White space before a call belongs to the call.
        let end = self.text[..self.scanner.position()].trim_end().len();
        self.advance_to(end)
    }

    /// Returns everything that was withheld, and withholds nothing any more.
    fn release(&mut self) -> String {
        self.is_released = true;
        self.advance_to(self.text.len())
    }

    /// Returns what the complete text has beyond what was passed on.
    fn rest_of(&self, visible: &str) -> String {
        let shown = &self.text[..self.length];
        let rest = visible.strip_prefix(shown);
        rest.expect("invariant: what was shown is a beginning of the complete text").to_owned()
    }

    fn advance_to(&mut self, end: usize) -> String {
        let start = self.length;
        self.length = self.length.max(end);
        self.text[start..self.length].to_owned()
    }
}

/// Returns true if a message that the model did not write contains this text.
fn says(message: &Message, piece: &str) -> bool {
    let contains = |blocks: &[Block]| {
        blocks.iter().any(|block| matches!(block, Block::Text { text } if text.contains(piece)))
    };
    match message {
        Message::User(user) => contains(&user.content),
        Message::Results(results) => results.results.iter().any(|result| contains(&result.content)),
        Message::Assistant(_) => false,
    }
}

fn text_of(reply: &ModelReply) -> String {
    let texts = reply.blocks.iter().filter_map(|block| match &block.content {
        ReplyContent::Text { text } => Some(text.as_str()),
        ReplyContent::Thinking { .. } | ReplyContent::Call(_) | ReplyContent::Opaque => None,
    });
    texts.collect()
}

/// Returns the reply with the parts of a reading in place of its text. A reply that is only text keeps its blocks.
fn with_reading(mut reply: ModelReply, reading: TextReading, format: ToolCallFormat) -> ModelReply {
    let unread = reading
        .failure
        .as_ref()
        .map(|failure| format!("{} {}", failure.sentence(), how_to_call(format)));
    if reading.is_text() {
        reply.text_calls = TextCallNotes { repair: None, unread };
        return reply;
    }
    reply.blocks.retain(|block| !matches!(block.content, ReplyContent::Text { .. }));
    let mut calls = 0;
    for part in reading.parts {
        let content = match part {
            ReadingPart::Text(text) => ReplyContent::Text { text },
            ReadingPart::Thinking(text) => ReplyContent::Thinking { text },
            ReadingPart::Call(call) => {
                calls += 1;
                ReplyContent::Call(ToolCall {
                    id: new_call_id(),
                    name: call.name,
                    arguments: call.arguments,
                })
            }
        };
        reply.blocks.push(ReplyBlock::without_native_item(content));
    }
    if calls > 0 && reply.stop != StopReason::Refusal {
        // Each of the calls is complete, whatever came after the last one.
        reply.stop = StopReason::ToolUse;
    }
    let repair = repair_note(calls, &reading.repairs, format);
    reply.text_calls = TextCallNotes { repair, unread };
    reply
}

/// Returns the note on what was unusual about calls in text.
fn repair_note(calls: usize, repairs: &[String], format: ToolCallFormat) -> Option<String> {
    let mut sentences = Vec::new();
    if calls > 0 && format == ToolCallFormat::Native {
        sentences.push(
            "The call was written as text and was read from there; use the tool calls of your interface."
                .to_owned(),
        );
    }
    if !repairs.is_empty() {
        sentences.push(format!("The call was accepted with mistakes: {}.", repairs.join(", ")));
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// Adds the way out to the error of a server that refuses requests with tools.
fn with_advice(
    mut error: ProviderError,
    tools: &[ToolDefinition],
    format: ToolCallFormat,
) -> ProviderError {
    if format == ToolCallFormat::Native && !tools.is_empty() && refuses_tools(&error.message) {
        let message = error.message.trim_end_matches('.');
        error.message = format!(
            "{message}; tool_calls = \"text\" in the settings of the model makes it call tools in text"
        );
    }
    error
}

/// Returns true if a server says that it or the model cannot take tools: Ollama, llama.cpp, vLLM, `OpenRouter`.
fn refuses_tools(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    [
        "does not support tools",
        "tools param requires --jinja",
        "--enable-auto-tool-choice",
        "no endpoints found that support tool use",
        "does not support tool",
        "does not support function calling",
        "tool use is not supported",
        "tools are not supported",
        "tools is not supported",
        "function calling is not enabled",
    ]
    .iter()
    .any(|sign| message.contains(sign))
}
