//! The stream of a reply whose text may contain calls.
//!
//! Text is passed on as it arrives, up to the first place where a call may begin; the rest waits until the reply is
//! complete. What is shown is therefore always a beginning of the text that the complete reply has.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use crow_core::{
    ids::CallId,
    message::{Block, Message, ReplyBlock, ReplyContent, ToolCall},
    model::{
        ModelEvent, ModelReply, ModelStream, ProviderError, StopReason, TextCallNotes,
        ToolCallFormat, ToolDefinition,
    },
};
use futures_util::Stream;
use uuid::Uuid;

use super::{
    prompt::how_to_call,
    read::{CallScanner, OfferedTools, ReadingPart, TextReading, read_text_calls},
};

/// Reads the calls in a reply's text.
pub(super) struct TextCallStream {
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
    pub(super) fn new(
        reply: ModelStream,
        tools: Arc<[ToolDefinition]>,
        messages: Vec<Arc<Message>>,
        format: ToolCallFormat,
    ) -> Self {
        let shown = ShownText::new(format);
        Self { reply, tools, messages, format, shown, pending: VecDeque::new() }
    }

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
                    id: CallId::new(format!("call_{}", Uuid::now_v7().simple())),
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
