//! The context window of a stored session: an account of its requests, as text or JSON lines.

use crow_app::SessionRecord;
use crow_console::ConsoleStyle;
use crow_context::accounting::{ContextAudit, ContextUsage};
use crow_core::{
    context::TokenEstimator,
    ids::SessionId,
    model::{ModelRef, Price},
};

use crate::{
    error::CliError,
    output::{ContextCompactionLine, ContextLine, ContextRequestLine, output_line},
    render::{SessionAccount, context_report},
};

/// The context window of a session.
pub(crate) struct SessionContext {
    session: SessionId,
    audit: ContextAudit,
    usage: ContextUsage,
    price: Option<Price>,
}

impl SessionContext {
    /// Folds the log of the session; its subagents and reviewers have windows of their own.
    ///
    /// # Errors
    /// Fails if lines of the log are lost, so that the others do not follow from each other.
    pub(crate) fn new(
        record: &SessionRecord,
        prices: &[(ModelRef, Price)],
    ) -> Result<Self, CliError> {
        let session = &record.metadata.session_id;
        let own = record.events.iter().filter(|line| line.session_id == *session);
        let audit = ContextAudit::from_log(own).map_err(|error| {
            CliError::failed(format!("the log of session {session} is damaged: {error}"))
                .hint(format!("crow-agent sessions repair {session}"))
        })?;
        let usage = audit.usage(&TokenEstimator::new("", &[]));
        let model = audit.requests().iter().rev().find_map(|request| request.model.as_ref());
        let price = prices.iter().find(|(of, _)| Some(of) == model).map(|(_, price)| *price);
        Ok(Self { session: session.clone(), audit, usage, price })
    }

    /// Renders the account for people.
    pub(crate) fn to_text(&self, style: &ConsoleStyle) -> String {
        let Self { audit, usage, price, .. } = self;
        context_report(style, SessionAccount { audit, usage, price: *price })
    }

    /// Renders the account for programs.
    pub(crate) fn to_json_lines(&self) -> Result<Vec<u8>, CliError> {
        let mut text = output_line(&ContextLine::new(&self.session, &self.usage))?;
        for request in self.audit.requests() {
            text.extend(output_line(&ContextRequestLine::new(request))?);
        }
        for compaction in self.audit.compactions() {
            text.extend(output_line(&ContextCompactionLine::new(compaction))?);
        }
        Ok(text)
    }
}
