//! Reasoning must come back as it was sent.

use crate::server::RecordedRequest;
use crate::wire::{ChatFlavour, Dialect, EncryptedReasoning, Reply, ReplyBlock, WireOptions};

use super::{Rule, Violation, reasoning};

/// A reply that a client got in whole.
#[derive(Debug, Clone)]
pub(in super::super) struct SentReply {
    dialect: Dialect,
    model: String,
    pub(super) chat: ChatFlavour,
    pub(super) blocks: Vec<ReplyBlock>,
    pub(super) text: String,
}

impl SentReply {
    pub(in super::super) fn new(dialect: Dialect, options: &WireOptions, reply: &Reply) -> Self {
        let has_proof = match dialect {
            Dialect::AnthropicMessages | Dialect::OpenAiChat | Dialect::Gemini => true,
            Dialect::OpenAiResponses => options.encrypted == EncryptedReasoning::Sent,
        };
        let blocks = reply.blocks.iter().filter(|block| match block {
            ReplyBlock::Thinking { .. } | ReplyBlock::RedactedThinking(_) => has_proof,
            ReplyBlock::Text(_) | ReplyBlock::Call { .. } => true,
        });
        Self {
            dialect,
            model: options.model.clone(),
            chat: options.chat,
            blocks: blocks.cloned().collect(),
            text: reply.joined_text(),
        }
    }

    /// Whether the reply has the call.
    pub(super) fn has_call(&self, call: &str) -> bool {
        self.blocks.iter().any(|block| match block {
            ReplyBlock::Call { id, .. } => id == call,
            ReplyBlock::Text(_) | ReplyBlock::Thinking { .. } | ReplyBlock::RedactedThinking(_) => {
                false
            }
        })
    }

    /// Whether the reply has any call.
    pub(super) fn has_calls(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block, ReplyBlock::Call { .. }))
    }
}

/// All replies that clients got in whole.
#[derive(Debug, Default)]
pub(in super::super) struct EchoBook(Vec<SentReply>);

impl EchoBook {
    pub(in super::super) fn remember(&mut self, reply: SentReply) {
        self.0.push(reply);
    }

    /// Checks that the request gives back what it must of the replies to the same model.
    pub(in super::super) fn check(&self, request: &RecordedRequest) -> Vec<Violation> {
        let sent: Vec<&SentReply> = self
            .0
            .iter()
            .filter(|reply| reply.dialect == request.dialect && reply.model == request.model())
            .collect();
        if sent.is_empty() {
            return Vec::new();
        }
        let details = match request.dialect {
            Dialect::AnthropicMessages => reasoning::check_anthropic(&request.body, &sent),
            Dialect::OpenAiResponses => reasoning::check_responses(&request.body, &sent),
            Dialect::OpenAiChat => reasoning::check_chat(&request.body, &sent),
            Dialect::Gemini => reasoning::check_gemini(&request.body, &sent),
        };
        details.into_iter().map(|detail| Violation::new(Rule::Echo, detail)).collect()
    }
}
