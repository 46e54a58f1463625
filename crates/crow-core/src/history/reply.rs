//! A reply of the model and the results of its calls.

use std::{collections::HashSet, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    ids::{MessageId, ReplyId},
    message::{AssistantMessage, Block, Message, ReplyContent, ResultMessage, ResultsMessage},
    tool_types::{ToolMetadata, ToolResult, ToolStatus},
};

/// A reply of the model with the results of its calls.
#[derive(Debug)]
pub(super) struct ReplyItem {
    pub(super) at: Timestamp,
    pub(super) answers: Box<[Option<CallAnswer>]>,
    messages: ReplyMessages,
}

/// The messages of a reply.
#[derive(Debug)]
enum ReplyMessages {
    Whole {
        reply: Arc<Message>,
        /// The message of the results, once all calls have theirs. It takes over the content of the answers.
        results: Option<Arc<Message>>,
    },
    /// A [`ReplyContents`] as JSON, which takes a fifth of the memory. No request contains the messages any more.
    Released(Box<str>),
}

/// What the timeline needs of a reply, apart from the outputs of its calls.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ReplyContents {
    pub(super) reply_id: ReplyId,
    pub(super) contents: Vec<ReplyContent>,
}

/// The result of a call.
#[derive(Debug)]
pub(super) struct CallAnswer {
    pub(super) at: Timestamp,
    pub(super) tool: Box<str>,
    pub(super) status: ToolStatus,
    pub(super) metadata: StoredMetadata,
    /// The content for the model, until it moves into the message of the results: long outputs are stored once.
    content: Box<[Block]>,
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
            tool: tool.into(),
            status: result.status,
            metadata: StoredMetadata::new(&result.metadata),
            content: std::iter::once(Block::text(result.output.clone())).chain(images).collect(),
        }
    }
}

impl ReplyItem {
    pub(super) fn new(at: Timestamp, reply: Arc<Message>, calls: usize) -> Self {
        let answers = (0..calls).map(|_| None).collect();
        Self { at, answers, messages: ReplyMessages::Whole { reply, results: None } }
    }

    /// Returns the messages of the reply and of its results. None once they were released.
    pub(super) fn messages(&self) -> impl Iterator<Item = &Arc<Message>> {
        let (reply, results) = match &self.messages {
            ReplyMessages::Whole { reply, results } => (Some(reply), results.as_ref()),
            ReplyMessages::Released(_) => (None, None),
        };
        reply.into_iter().chain(results)
    }

    /// Makes the message of the results, if the reply made calls and all have their results. Returns it.
    pub(super) fn close(&mut self) -> Option<Arc<Message>> {
        let ReplyMessages::Whole { reply, results } = &mut self.messages else { return None };
        let Message::Assistant(reply) = reply.as_ref() else { return None };
        if self.answers.is_empty() || self.answers.iter().any(Option::is_none) {
            return None;
        }
        let answers = self.answers.iter_mut().flatten();
        let all = reply.calls().zip(answers).map(|(call, answer)| ResultMessage {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            content: std::mem::take(&mut answer.content).into_vec(),
            is_error: answer.status != ToolStatus::Success,
        });
        let all = all.collect();
        let id = MessageId::new(format!("{}-results", reply.reply_id));
        let message = Arc::new(Message::Results(ResultsMessage { id, results: all }));
        Some(Arc::clone(results.insert(message)))
    }

    /// Frees the memory of messages that are not among those sent: of the outputs, and of the reply once it is left out.
    pub(super) fn release(&mut self, sent: &HashSet<*const Message>) {
        let ReplyMessages::Whole { reply, results } = &mut self.messages else { return };
        let is_sent = |message: &Arc<Message>| sent.contains(&Arc::as_ptr(message));
        if results.as_ref().is_some_and(is_sent) {
            return;
        }
        match reply.as_ref() {
            Message::Assistant(message) if !is_sent(reply) => {
                let released = ReplyContents::new(message);
                let json = serde_json::to_string(&released)
                    .expect("invariant: the content of a reply can be written as JSON");
                self.messages = ReplyMessages::Released(json.into_boxed_str());
            }
            Message::Assistant(_) | Message::User(_) | Message::Results(_) => {
                *results = results.as_deref().map(without_outputs);
            }
        }
    }

    /// Returns what the reply says.
    pub(super) fn contents(&self) -> Option<ReplyContents> {
        match &self.messages {
            ReplyMessages::Whole { reply, .. } => match reply.as_ref() {
                Message::Assistant(message) => Some(ReplyContents::new(message)),
                Message::User(_) | Message::Results(_) => None,
            },
            ReplyMessages::Released(json) => Some(
                serde_json::from_str(json)
                    .expect("invariant: a released reply is read as it was written"),
            ),
        }
    }

    /// Returns the output of an answer for the model; empty if it was released.
    pub(super) fn output(&self, position: usize) -> &str {
        let content = match &self.messages {
            ReplyMessages::Whole { results: Some(results), .. } => match results.as_ref() {
                Message::Results(message) => {
                    message.results.get(position).map(|result| result.content.as_slice())
                }
                Message::User(_) | Message::Assistant(_) => None,
            },
            ReplyMessages::Whole { results: None, .. } => {
                let answer = self.answers.get(position).and_then(Option::as_ref);
                answer.map(|answer| answer.content.as_ref())
            }
            ReplyMessages::Released(_) => None,
        };
        match content.and_then(|content| content.first()) {
            Some(Block::Text { text }) => text,
            Some(Block::Image(_)) | None => "",
        }
    }
}

impl ReplyContents {
    fn new(message: &AssistantMessage) -> Self {
        let contents = message.blocks.iter().map(|block| block.content.clone()).collect();
        Self { reply_id: message.reply_id.clone(), contents }
    }
}

/// Returns a message of results without their outputs: their places stay.
fn without_outputs(message: &Message) -> Arc<Message> {
    let Message::Results(results) = message else { return Arc::new(message.clone()) };
    let emptied = results.results.iter().map(|result| ResultMessage {
        call_id: result.call_id.clone(),
        tool: result.tool.clone(),
        content: Vec::new(),
        is_error: result.is_error,
    });
    let (id, results) = (results.id.clone(), emptied.collect());
    Arc::new(Message::Results(ResultsMessage { id, results }))
}
