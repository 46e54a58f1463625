//! Check that clients send reasoning back unchanged.

use crate::server::RecordedRequest;
use crate::wire::{
    ChatFlavour, EncryptedReasoning, ScriptedBlock, ScriptedReply, WireDialect, WireOptions,
};

use super::{Rule, Violation, reasoning};

/// A reply that was sent to a client completely.
#[derive(Debug, Clone)]
pub(in super::super) struct SentReply {
    dialect: WireDialect,
    model: String,
    pub(super) chat: ChatFlavour,
    pub(super) blocks: Vec<ScriptedBlock>,
    pub(super) text: String,
}

impl SentReply {
    pub(in super::super) fn new(
        dialect: WireDialect,
        options: &WireOptions,
        reply: &ScriptedReply,
    ) -> Self {
        // Without its encrypted content, reasoning cannot be sent back.
        let has_proof = match dialect {
            WireDialect::AnthropicMessages | WireDialect::OpenAiChat | WireDialect::Gemini => true,
            WireDialect::OpenAiResponses => options.encrypted == EncryptedReasoning::Sent,
        };
        let blocks = reply.blocks.iter().filter(|block| match block {
            ScriptedBlock::Thinking { .. } | ScriptedBlock::RedactedThinking(_) => has_proof,
            ScriptedBlock::Text(_) | ScriptedBlock::Call { .. } => true,
        });
        Self {
            dialect,
            model: options.model.clone(),
            chat: options.chat,
            blocks: blocks.cloned().collect(),
            text: reply.joined_text(),
        }
    }

    /// Returns true if the reply has a call with this id.
    pub(super) fn has_call(&self, call: &str) -> bool {
        self.blocks.iter().any(|block| match block {
            ScriptedBlock::Call { id, .. } => id == call,
            ScriptedBlock::Text(_)
            | ScriptedBlock::Thinking { .. }
            | ScriptedBlock::RedactedThinking(_) => false,
        })
    }

    /// Returns true if the reply has a call.
    pub(super) fn has_calls(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block, ScriptedBlock::Call { .. }))
    }
}

/// All replies that were sent completely.
#[derive(Debug, Default)]
pub(in super::super) struct EchoCheck(Vec<SentReply>);

impl EchoCheck {
    pub(in super::super) fn remember(&mut self, reply: SentReply) {
        self.0.push(reply);
    }

    /// Checks that the request contains the reasoning of earlier replies of the same model where the dialect requires
    /// it.
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
            WireDialect::AnthropicMessages => reasoning::check_anthropic(&request.body, &sent),
            WireDialect::OpenAiResponses => reasoning::check_responses(&request.body, &sent),
            WireDialect::OpenAiChat => reasoning::check_chat(&request.body, &sent),
            WireDialect::Gemini => reasoning::check_gemini(&request.body, &sent),
        };
        details.into_iter().map(|detail| Violation::new(Rule::Echo, detail)).collect()
    }
}
