//! A recording as a provider, and its playback in one session.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crow_core::{
    ids::SessionId,
    message::{Block, Message, Origin, ReplyBlock, ReplyContent},
    model::{
        Abilities, Conversation, ModelEvent, ModelInfo, ModelRef, ModelReply, ModelRequest,
        ModelStream, Provider, ProviderError, ProviderErrorKind, TextCallNotes, ToolCallFormat,
    },
};
use futures_util::stream;

use super::recording::{RecordedConversation, RecordedReply, RecordingError};

/// The name of the provider.
const NAME: &str = "replay";

/// Plays a recorded conversation, the same one in every session.
#[derive(Debug, Clone)]
pub struct ReplayProvider {
    recording: Arc<RecordedConversation>,
    pace: Duration,
}

impl ReplayProvider {
    /// Parses a recording.
    pub fn from_json(text: &str) -> Result<Self, RecordingError> {
        let recording = RecordedConversation::parse(text)?;
        Ok(Self { pace: recording.pace, recording: Arc::new(recording) })
    }

    /// Reads a recording from a file.
    pub async fn read(path: impl AsRef<Path>) -> Result<Self, RecordingError> {
        let path = PathBuf::from(path.as_ref());
        match tokio::fs::read_to_string(&path).await {
            Ok(text) => Self::from_json(&text),
            Err(source) => Err(RecordingError::Unreadable { path, source }),
        }
    }

    /// Sets the pause between two deltas.
    #[must_use]
    pub fn with_pace(self, pace: Duration) -> Self {
        Self { pace, ..self }
    }

    /// Returns the properties of the recorded model, as far as a request needs them.
    pub fn model(&self) -> ModelInfo {
        let model = self.recording.model.clone();
        ModelInfo {
            reference: ModelRef { provider: NAME.to_owned(), model },
            context_window: None,
            max_output_tokens: None,
            abilities: Abilities { tools: true, vision: true, thinking: true },
            tool_calls: Some(ToolCallFormat::Native),
        }
    }
}

impl Provider for ReplayProvider {
    fn name(&self) -> &str {
        NAME
    }

    fn conversation(&self, model: &ModelInfo, _session: &SessionId) -> Box<dyn Conversation> {
        let origin = Origin {
            dialect: NAME.to_owned(),
            provider: NAME.to_owned(),
            base_url: String::new(),
            model: model.reference.model.clone(),
        };
        Box::new(ReplayConversation {
            recording: Arc::clone(&self.recording),
            pace: self.pace,
            origin,
            next: None,
        })
    }
}

type ReplayItem = Result<ModelEvent, ProviderError>;

/// Playback of a recording in one session.
#[derive(Debug)]
struct ReplayConversation {
    recording: Arc<RecordedConversation>,
    pace: Duration,
    origin: Origin,
    /// Index of the next reply; none before the first request, which counts the replies of a resumed session.
    next: Option<usize>,
}

impl ReplayConversation {
    fn answer(&self, number: usize, messages: &[Arc<Message>]) -> Result<Vec<ReplayItem>, String> {
        let replies = &self.recording.replies;
        let reply = replies.get(number).ok_or_else(|| {
            format!("it has {} replies and was asked for reply {}", replies.len(), number + 1)
        })?;
        if let Some(expect) = &reply.expect {
            check(expect, number, messages)?;
        }
        let mut items: Vec<ReplayItem> = reply.blocks.iter().flat_map(deltas).map(Ok).collect();
        items.push(Ok(ModelEvent::Completed(self.complete(reply))));
        Ok(items)
    }

    fn complete(&self, reply: &RecordedReply) -> ModelReply {
        ModelReply {
            blocks: reply.blocks.clone(),
            stop: reply.stop,
            usage: reply.usage,
            origin: self.origin.clone(),
            response_id: None,
            text_calls: TextCallNotes::default(),
        }
    }
}

impl Conversation for ReplayConversation {
    fn stream(&mut self, request: ModelRequest<'_>) -> ModelStream {
        let number = self.next.unwrap_or_else(|| replies_in(request.messages));
        self.next = Some(number + 1);
        let items = self.answer(number, request.messages).unwrap_or_else(|reason| {
            let message = format!("the recording does not fit: {reason}");
            let mut error = ProviderError::new(ProviderErrorKind::InvalidRequest, message);
            self.origin.provider.clone_into(&mut error.provider);
            vec![Err(error)]
        });
        play(items.into(), self.pace)
    }
}

fn replies_in(messages: &[Arc<Message>]) -> usize {
    messages.iter().filter(|message| matches!(&***message, Message::Assistant(_))).count()
}

/// Checks that the last results contain the text that the recording expects.
fn check(expect: &str, number: usize, messages: &[Arc<Message>]) -> Result<(), String> {
    let last = messages.iter().rev().find_map(|message| match &**message {
        Message::Results(results) => Some(results),
        Message::User(_) | Message::Assistant(_) => None,
    });
    let results = last.map_or(&[][..], |results| results.results.as_slice());
    let texts = results.iter().flat_map(|result| &result.content).filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        Block::Image(_) => None,
    });
    let output = texts.collect::<Vec<_>>().join("\n");
    if output.contains(expect) {
        return Ok(());
    }
    Err(format!(
        "reply {} expects \"{expect}\" in the results before it, which say \"{}\"",
        number + 1,
        shortened(&output)
    ))
}

fn shortened(text: &str) -> String {
    const MOST: usize = 200;
    let mut chars = text.chars();
    let start: String = chars.by_ref().take(MOST).collect();
    if chars.next().is_some() { format!("{start}…") } else { start }
}

/// Returns the deltas of a block, one word each.
fn deltas(block: &ReplyBlock) -> Vec<ModelEvent> {
    let words = |text: &str| -> Vec<String> {
        text.split_inclusive(char::is_whitespace).map(str::to_owned).collect()
    };
    match &block.content {
        ReplyContent::Text { text } => words(text).into_iter().map(ModelEvent::TextDelta).collect(),
        ReplyContent::Thinking { text } => {
            words(text).into_iter().map(ModelEvent::ThinkingDelta).collect()
        }
        ReplyContent::Call(call) => vec![ModelEvent::CallStarted { name: call.name.clone() }],
        ReplyContent::Opaque => Vec::new(),
    }
}

fn play(items: VecDeque<ReplayItem>, pace: Duration) -> ModelStream {
    Box::pin(stream::unfold(items, move |mut items| async move {
        let item = items.pop_front()?;
        if !pace.is_zero() {
            tokio::time::sleep(pace).await;
        }
        Some((item, items))
    }))
}

#[cfg(test)]
#[path = "provider_tests.rs"]
mod tests;
