//! A reply of the model and the results of its calls.

use std::sync::Arc;

use jiff::Timestamp;

use crate::{
    ids::MessageId,
    message::{Block, Message, ResultMessage, ResultsMessage},
    tool_types::{ToolMetadata, ToolResult, ToolStatus},
};

/// A reply of the model with the results of its calls.
#[derive(Debug)]
pub(super) struct ReplyItem {
    pub(super) at: Timestamp,
    pub(super) message: Arc<Message>,
    pub(super) answers: Vec<Option<CallAnswer>>,
    /// The message of the results, once all calls have theirs. It takes over the content of the answers.
    pub(super) results: Option<Arc<Message>>,
}

/// The result of a call.
#[derive(Debug)]
pub(super) struct CallAnswer {
    pub(super) at: Timestamp,
    pub(super) tool: String,
    pub(super) status: ToolStatus,
    pub(super) metadata: StoredMetadata,
    /// The content for the model, until it moves into the message of the results: long outputs are stored once.
    content: Vec<Block>,
}

/// Metadata of a result. It is seldom read and mostly a few numbers, so it is stored as JSON, which takes a tenth of
/// the memory.
#[derive(Debug)]
pub(super) enum StoredMetadata {
    Json(Box<str>),
    /// Metadata that cannot be written as JSON: it names a path that is not UTF-8.
    Whole(Box<ToolMetadata>),
}

impl StoredMetadata {
    fn new(metadata: &ToolMetadata) -> Self {
        match serde_json::to_string(metadata) {
            Ok(json) => Self::Json(json.into_boxed_str()),
            Err(_) => Self::Whole(Box::new(metadata.clone())),
        }
    }

    /// Returns false if there is certainly no value under `key`. The key must need no escape in JSON.
    pub(super) fn may_hold(&self, key: &str) -> bool {
        match self {
            Self::Json(json) => json.contains(key),
            Self::Whole(_) => true,
        }
    }

    pub(super) fn read(&self) -> ToolMetadata {
        match self {
            Self::Json(json) => {
                serde_json::from_str(json).expect("invariant: metadata is read as it was written")
            }
            Self::Whole(metadata) => metadata.as_ref().clone(),
        }
    }
}

impl CallAnswer {
    pub(super) fn new(at: Timestamp, tool: &str, result: &ToolResult) -> Self {
        let images = result.images.iter().cloned().map(Block::Image);
        Self {
            at,
            tool: tool.to_owned(),
            status: result.status,
            metadata: StoredMetadata::new(&result.metadata),
            content: std::iter::once(Block::text(result.output.clone())).chain(images).collect(),
        }
    }
}

impl ReplyItem {
    /// Makes the message of the results, if the reply made calls and all have their results.
    pub(super) fn close(&mut self) {
        let Message::Assistant(reply) = self.message.as_ref() else { return };
        if self.answers.is_empty() || self.answers.iter().any(Option::is_none) {
            return;
        }
        let answers = self.answers.iter_mut().flatten();
        let results = reply.calls().zip(answers).map(|(call, answer)| ResultMessage {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            content: std::mem::take(&mut answer.content),
            is_error: answer.status != ToolStatus::Success,
        });
        let results = results.collect();
        let id = MessageId::new(format!("{}-results", reply.reply_id));
        self.results = Some(Arc::new(Message::Results(ResultsMessage { id, results })));
    }

    /// Drops the outputs: their places stay.
    pub(super) fn release_outputs(&mut self) {
        let Some(Message::Results(results)) = self.results.as_deref() else { return };
        let emptied = results.results.iter().map(|result| ResultMessage {
            call_id: result.call_id.clone(),
            tool: result.tool.clone(),
            content: Vec::new(),
            is_error: result.is_error,
        });
        let (id, results) = (results.id.clone(), emptied.collect());
        self.results = Some(Arc::new(Message::Results(ResultsMessage { id, results })));
    }

    /// Returns the output of an answer for the model.
    pub(super) fn output(&self, position: usize) -> &str {
        let content = match self.results.as_deref() {
            Some(Message::Results(message)) => {
                message.results.get(position).map(|result| &result.content)
            }
            Some(Message::User(_) | Message::Assistant(_)) | None => {
                let answer = self.answers.get(position).and_then(Option::as_ref);
                answer.map(|answer| &answer.content)
            }
        };
        match content.and_then(|content| content.first()) {
            Some(Block::Text { text }) => text,
            Some(Block::Image(_)) | None => "",
        }
    }
}
