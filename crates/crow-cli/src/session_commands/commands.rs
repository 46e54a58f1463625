//! [`ConsoleCommands`]: the implementation of [`SessionCommands`].

use async_trait::async_trait;
use crow_app::host::{CommandSession, SessionCommands, blocking};
use crow_console::{ConsoleStyle, prices_of};
use crow_runtime::{HostCommand, HostError};

use super::changes::{self, CHANGES, ChangesRequest, DIFF, REDO, UNDO};
use crate::{
    error::CliError,
    export::{to_markdown, write},
    session_context::SessionContext,
};

const EXPORT: HostCommand =
    HostCommand::new("export", "[FILE]", "write this session to a file, as Markdown");
const CONTEXT: HostCommand = HostCommand::new(
    "context",
    "",
    "show what fills the context window; and why the cache was missed",
);

/// Commands about the changes of a session, and its export.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConsoleCommands {
    style: ConsoleStyle,
}

impl ConsoleCommands {
    /// Creates the commands. Their output has the width and the characters of `style`, but is plain text: editors show
    /// it, too.
    pub(crate) fn new(style: ConsoleStyle) -> Self {
        Self { style: ConsoleStyle { colour: false, live: false, ..style } }
    }
}

#[async_trait]
impl SessionCommands for ConsoleCommands {
    fn commands(&self) -> Vec<HostCommand> {
        vec![UNDO, REDO, DIFF, CHANGES, CONTEXT, EXPORT]
    }

    async fn run(
        &self,
        session: CommandSession,
        name: &str,
        argument: &str,
    ) -> Result<String, HostError> {
        let argument = argument.to_owned();
        let Some(request) = ChangesRequest::named(name) else {
            let record = session.record().await?;
            if name == CONTEXT.name {
                let prices = prices_of(&record.events, &*session.models).await;
                let context = SessionContext::new(&record, &prices);
                let context = context.map_err(|CliError { message, hint, .. }| {
                    HostError::Refused { message, hint: hint.unwrap_or_default() }
                })?;
                return Ok(context.to_text(&self.style).trim_end().to_owned());
            }
            let text = to_markdown(&record, &prices_of(&record.events, &*session.models).await);
            return blocking(move || write(&text, &session.handle, &argument)).await?;
        };
        if request.changes_files() {
            changes::idle(&session.handle).await?;
        }
        let CommandSession { handle, store, .. } = session;
        let open = changes::OpenSessionView { handle, store, style: self.style };
        blocking(move || request.answer(&open, &argument)).await?
    }
}
