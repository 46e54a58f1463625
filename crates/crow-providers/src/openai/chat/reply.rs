//! A reply in progress.

use crow_core::{
    message::{ReplyBlock, ReplyContent},
    model::ModelEvent,
};

use super::{
    calls::{CallPiece, ChatOpenCall, NameChange},
    reasoning::{OpenReasoning, ReasoningDelta},
};
use crate::openai::call_ids::ReplyIds;

/// The blocks of a reply in the order of their start.
#[derive(Debug, Default)]
pub(super) struct ChatOpenReply {
    blocks: Vec<ChatOpenBlock>,
}

#[derive(Debug)]
enum ChatOpenBlock {
    Text(String),
    Reasoning(OpenReasoning),
    Call(ChatOpenCall),
}

impl ChatOpenReply {
    pub(super) fn push_text(&mut self, more: &str, out: &mut Vec<ModelEvent>) {
        if more.is_empty() {
            return;
        }
        if let Some(ChatOpenBlock::Text(text)) = self.blocks.last_mut() {
            text.push_str(more);
        } else {
            self.blocks.push(ChatOpenBlock::Text(more.to_owned()));
        }
        out.push(ModelEvent::TextDelta(more.to_owned()));
    }

    pub(super) fn push_reasoning(&mut self, delta: &ReasoningDelta<'_>, out: &mut Vec<ModelEvent>) {
        if let Some(ChatOpenBlock::Reasoning(reasoning)) = self.blocks.last_mut() {
            reasoning.push(delta);
        } else {
            let mut reasoning = OpenReasoning::default();
            reasoning.push(delta);
            self.blocks.push(ChatOpenBlock::Reasoning(reasoning));
        }
        if !delta.text.is_empty() {
            out.push(ModelEvent::ThinkingDelta(delta.text.clone().into_owned()));
        }
    }

    pub(super) fn push_call(&mut self, piece: &CallPiece<'_>, out: &mut Vec<ModelEvent>) {
        // The last call that the piece may belong to.
        let owner = self.blocks.iter_mut().rev().find_map(|block| match block {
            ChatOpenBlock::Call(call) if call.may_contain(piece) => Some(call),
            ChatOpenBlock::Call(_) | ChatOpenBlock::Text(_) | ChatOpenBlock::Reasoning(_) => None,
        });
        if let Some(call) = owner.filter(|call| !call.is_ended_by(piece)) {
            announce(call.push(piece), call, out);
        } else {
            let mut call = ChatOpenCall::default();
            announce(call.push(piece), &call, out);
            self.blocks.push(ChatOpenBlock::Call(call));
        }
    }

    pub(super) fn into_blocks(self, ids: &mut ReplyIds) -> Vec<ReplyBlock> {
        self.blocks
            .into_iter()
            .map(|block| match block {
                ChatOpenBlock::Text(text) => {
                    ReplyBlock::without_native_item(ReplyContent::Text { text })
                }
                ChatOpenBlock::Reasoning(reasoning) => reasoning_block(reasoning),
                ChatOpenBlock::Call(call) => {
                    ReplyBlock::without_native_item(ReplyContent::Call(call.into_call(ids)))
                }
            })
            .collect()
    }
}

fn announce(effect: NameChange, call: &ChatOpenCall, out: &mut Vec<ModelEvent>) {
    match effect {
        NameChange::Set => out.push(ModelEvent::CallStarted { name: call.name().to_owned() }),
        NameChange::Unchanged => {}
    }
}

fn reasoning_block(reasoning: OpenReasoning) -> ReplyBlock {
    let native = reasoning.native();
    let content = if reasoning.text.is_empty() {
        ReplyContent::Opaque
    } else {
        ReplyContent::Thinking { text: reasoning.text }
    };
    match native {
        Some(item) => ReplyBlock::with_native(content, item),
        None => ReplyBlock::without_native_item(content),
    }
}
