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
    refusal::{ModelsWithoutTools, RequestInText, ToolRefusalStream},
    request::{TextHistory, how_to_call, with_tools},
};
use crate::codec::new_call_id;

/// Any provider, with calls read from the text of replies.
///
/// A model with [`ToolCallFormat::Text`] is sent no tools: the system prompt describes them, and earlier calls and
/// results are text. With [`ToolCallFormat::CodeBlocks`], code blocks of shell and Python are calls of the tool `bash`
/// besides. A model with native calls is asked as before; if its reply has no native call, but text that is
/// unmistakably one, it is read as a call. A call that the model only repeats from a result or a message of the user is
/// not read, so that a file cannot call tools by being quoted. Replies to requests that forbid calls are not read. An obligation to call
/// tools cannot be enforced in text and is ignored there.
///
/// If the server refuses a request because of its tools, the request is sent again as text, and the model gets no tools
/// any more, in all conversations of this provider. The first such stream says so with a [`ModelEvent::Warning`].
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
    without_tools: ModelsWithoutTools,
}

impl TextCallProvider {
    /// Reads the calls in the replies of a provider.
    pub fn new(provider: Arc<dyn Provider>) -> Self {
        Self { provider, without_tools: ModelsWithoutTools::default() }
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
        let opening = ConversationOpening {
            provider: Arc::clone(&self.provider),
            model: model.clone(),
            session: session.clone(),
        };
        let side = match model.tool_calls.unwrap_or_default() {
            ToolCallFormat::Native => ConversationSide::Native(opening.open()),
            format @ (ToolCallFormat::Text | ToolCallFormat::CodeBlocks) => {
                ConversationSide::Text(TextConversation::new(opening.open(), format))
            }
        };
        Box::new(TextCallConversation {
            opening,
            without_tools: self.without_tools.clone(),
            side,
            system: Arc::from(""),
            tools: Arc::default(),
        })
    }
}

/// What is needed to begin a conversation with the provider.
#[derive(Debug, Clone)]
struct ConversationOpening {
    provider: Arc<dyn Provider>,
    model: ModelInfo,
    session: SessionId,
}

impl ConversationOpening {
    fn open(&self) -> Box<dyn Conversation> {
        self.provider.conversation(&self.model, &self.session)
    }
}

struct TextCallConversation {
    opening: ConversationOpening,
    without_tools: ModelsWithoutTools,
    side: ConversationSide,
    /// The system prompt of the last request.
    system: Arc<str>,
    /// The tools of the last request.
    tools: Arc<[ToolDefinition]>,
}

/// The conversation with the provider. Providers encode each message once, so calls in text have one of their own.
enum ConversationSide {
    Native(Box<dyn Conversation>),
    Text(TextConversation),
}

impl Conversation for TextCallConversation {
    fn stream(&mut self, request: ModelRequest<'_>) -> ModelStream {
        if *self.system != *request.system {
            self.system = request.system.into();
        }
        if *self.tools != *request.tools {
            self.tools = request.tools.into();
        }
        let model = &self.opening.model.reference;
        if matches!(self.side, ConversationSide::Native(_)) && self.without_tools.contains(model) {
            // The server has seen nothing of it: the conversation begins anew, in text.
            self.side = ConversationSide::Text(TextConversation::new(
                self.opening.open(),
                ToolCallFormat::Text,
            ));
        }
        let conversation = match &mut self.side {
            ConversationSide::Text(text) => return text.stream(request, &self.tools),
            ConversationSide::Native(conversation) => conversation,
        };
        let reply = conversation.stream(request);
        if request.tools.is_empty() {
            return reply;
        }
        let messages: Arc<[_]> = request.messages.into();
        let in_text = self.request_in_text(request, Arc::clone(&messages));
        let reply = read_calls(reply, request, messages, &self.tools, ToolCallFormat::Native);
        let (model, models) = (model.clone(), self.without_tools.clone());
        Box::pin(ToolRefusalStream::new(reply, model, models, in_text))
    }
}

impl TextCallConversation {
    /// Returns what sends the same request as text.
    fn request_in_text(
        &self,
        request: ModelRequest<'_>,
        messages: Arc<[Arc<Message>]>,
    ) -> RequestInText {
        let (opening, system) = (self.opening.clone(), Arc::clone(&self.system));
        let (tools, config) = (Arc::clone(&self.tools), request.config.clone());
        let is_forbidden = request.tool_choice == ToolChoice::None;
        Box::new(move || {
            let request = ModelRequest {
                system: &system,
                tools: &tools,
                messages: &messages,
                config: &config,
                tool_choice: if is_forbidden { ToolChoice::None } else { ToolChoice::Auto },
            };
            TextConversation::new(opening.open(), ToolCallFormat::Text).stream(request, &tools)
        })
    }
}

/// The conversation with a model that gets its tools in the system prompt.
struct TextConversation {
    conversation: Box<dyn Conversation>,
    format: ToolCallFormat,
    history: TextHistory,
    /// The system prompt and the tools of the last request, and both as one text.
    prompt: Option<(String, Arc<[ToolDefinition]>, String)>,
}

impl TextConversation {
    fn new(conversation: Box<dyn Conversation>, format: ToolCallFormat) -> Self {
        Self { conversation, format, history: TextHistory::new(format), prompt: None }
    }

    fn stream(&mut self, request: ModelRequest<'_>, tools: &Arc<[ToolDefinition]>) -> ModelStream {
        let known = self.prompt.take().filter(|(system, described, _)| {
            system == request.system && (Arc::ptr_eq(described, tools) || **described == **tools)
        });
        let (_, _, prompt) = self.prompt.insert(known.unwrap_or_else(|| {
            let prompt = with_tools(request.system, request.tools, self.format);
            (request.system.to_owned(), Arc::clone(tools), prompt)
        }));
        let reply = self.conversation.stream(ModelRequest {
            system: prompt,
            tools: &[],
            messages: self.history.messages(request.messages),
            tool_choice: ToolChoice::Auto,
            ..request
        });
        read_calls(reply, request, request.messages.into(), tools, self.format)
    }
}

/// Reads the calls in the text of a reply, unless the request allows none.
fn read_calls(
    reply: ModelStream,
    request: ModelRequest<'_>,
    messages: Arc<[Arc<Message>]>,
    tools: &Arc<[ToolDefinition]>,
    format: ToolCallFormat,
) -> ModelStream {
    if request.tools.is_empty() || request.tool_choice == ToolChoice::None {
        return reply;
    }
    Box::pin(TextCallStream {
        reply,
        tools: Arc::clone(tools),
        messages,
        format,
        shown: ShownText::new(format),
        pending: VecDeque::new(),
    })
}

/// Reads the calls in a reply's text.
struct TextCallStream {
    reply: ModelStream,
    tools: Arc<[ToolDefinition]>,
    /// The messages of the request.
    messages: Arc<[Arc<Message>]>,
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
            event @ (ModelEvent::ThinkingDelta(_)
            | ModelEvent::Accepted { .. }
            | ModelEvent::Waiting(_)
            | ModelEvent::Warning(_)) => {
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
        let mut reading = if text == self.shown.text { streamed } else { self.read(&text) };
        if reply.stop == StopReason::MaxTokens {
            reading = reading.without_cut_call();
        }
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
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
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
