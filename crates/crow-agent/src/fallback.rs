//! Fallback to another model if one cannot answer.

use crow_core::{
    event::{AgentEvent, NoticeAudience, NoticeLevel},
    model::{ProviderError, ResolvedModel},
};
use crow_runtime::{AgentError, AgentInternals};

/// The models of a turn: the current one and the remaining fallbacks.
#[derive(Debug)]
pub(crate) struct Fallback<'a> {
    in_use: &'a ResolvedModel,
    remaining: std::slice::Iter<'a, ResolvedModel>,
}

impl<'a> Fallback<'a> {
    pub(crate) fn new(first: &'a ResolvedModel, others: &'a [ResolvedModel]) -> Self {
        Self { in_use: first, remaining: others.iter() }
    }

    pub(crate) fn in_use(&self) -> &'a ResolvedModel {
        self.in_use
    }

    /// Switches to the next model and emits a notice. Returns false if there is none.
    pub(crate) async fn fall_back(
        &mut self,
        agent: &mut AgentInternals,
        error: &ProviderError,
    ) -> Result<bool, AgentError> {
        let Some(next) = self.remaining.next() else { return Ok(false) };
        tracing::debug!(model = %next.info.reference, kind = ?error.kind, "falling back to another model");
        let text = format!(
            "{} cannot answer ({error}); {} is used instead",
            self.in_use.info.reference, next.info.reference
        );
        let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
        agent.emit(AgentEvent::Notice { level, audience, text }).await?;
        agent.switch_model(&next.info).await?;
        self.in_use = next;
        Ok(true)
    }
}
