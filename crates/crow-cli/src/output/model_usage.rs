//! The tokens of each model.

use std::collections::BTreeMap;

use crow_core::{
    ids::{ReplyId, SessionId},
    model::ModelRef,
    usage::TokenUsage,
};

/// Sums the tokens of each model. Which model a reply was of, and its tokens, come in two events, in either order: the last
/// reply of each session is kept apart until the next one begins.
#[derive(Debug, Default)]
pub(super) struct ModelUsageSums {
    /// In the order of the names, so that sums do not differ from run to run.
    sums: BTreeMap<Option<ModelRef>, TokenUsage>,
    last: BTreeMap<SessionId, ModelCallUsage>,
}

#[derive(Debug)]
struct ModelCallUsage {
    reply_id: ReplyId,
    model: Option<ModelRef>,
    usage: TokenUsage,
}

impl ModelUsageSums {
    /// Learns which model a reply is of.
    pub(super) fn set_model(&mut self, session: &SessionId, reply: &ReplyId, model: ModelRef) {
        self.call(session, reply).model = Some(model);
    }

    /// Learns of tokens for a reply: those of each attempt.
    pub(super) fn add(&mut self, session: &SessionId, reply: &ReplyId, usage: TokenUsage) {
        self.call(session, reply).usage += usage;
    }

    /// Returns the tokens of each model; without a model those of replies that never came.
    pub(super) fn all(&self) -> BTreeMap<Option<&ModelRef>, TokenUsage> {
        let sums = self.sums.iter().map(|(model, usage)| (model.as_ref(), *usage));
        let last = self.last.values().map(|call| (call.model.as_ref(), call.usage));
        let mut all = BTreeMap::new();
        for (model, usage) in sums.chain(last) {
            *all.entry(model).or_insert_with(TokenUsage::default) += usage;
        }
        all
    }

    fn call(&mut self, session: &SessionId, reply: &ReplyId) -> &mut ModelCallUsage {
        let fresh = || ModelCallUsage {
            reply_id: reply.clone(),
            model: None,
            usage: TokenUsage::default(),
        };
        let call = self.last.entry(session.clone()).or_insert_with(fresh);
        if call.reply_id != *reply {
            let ModelCallUsage { model, usage, .. } = std::mem::replace(call, fresh());
            *self.sums.entry(model).or_default() += usage;
        }
        call
    }
}
