//! Sums of tokens for each model.

use std::collections::BTreeMap;

use crow_core::{
    ids::{ReplyId, SessionId},
    model::ModelRef,
    usage::TokenUsage,
};

/// Sums of tokens for each model. The model of a reply and its tokens arrive in two events, in either order: the last
/// reply of each session is kept in `last` until the next one begins, and then added to `sums`.
#[derive(Debug, Default)]
pub(super) struct ModelUsageSums {
    /// Ordered by name, so that floating-point sums of costs do not differ from run to run.
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
    /// Sets the model of a reply.
    pub(super) fn set_model(&mut self, session: &SessionId, reply: &ReplyId, model: ModelRef) {
        self.call(session, reply).model = Some(model);
    }

    /// Adds tokens of one attempt at a reply.
    pub(super) fn add(&mut self, session: &SessionId, reply: &ReplyId, usage: TokenUsage) {
        self.call(session, reply).usage += usage;
    }

    /// Returns the tokens for each model; those of replies that never arrived are under `None`.
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
