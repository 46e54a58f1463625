//! Tools that come and go while a session is open.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::Tool;
use crate::event::NoticeLevel;

/// Tools that come and go while a session is open. All agents of the session take those that they may have, before each
/// model call.
#[async_trait]
pub trait ToolSource: Send + Sync + fmt::Debug {
    /// Waits until the tools are there for which one should wait. Returns at once where there is nothing to wait for, and
    /// always in bounded time. Cancelling only ends the waiting.
    async fn ready(&self, cancel: &CancellationToken);

    /// Returns the tools as they are now.
    fn tools(&self) -> SourcedTools;

    /// Takes what the user should be told, once.
    fn take_news(&self) -> Vec<SourceNews>;

    /// Ends what serves the tools. Calls fail from then on. Returns when it is over, in bounded time.
    async fn close(&self);
}

/// Tools as they are at a moment.
#[derive(Clone, Default)]
pub struct SourcedTools {
    /// Another number means other tools.
    pub revision: u64,
    /// The tools, each name once.
    pub tools: Arc<[Arc<dyn Tool>]>,
}

impl fmt::Debug for SourcedTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.tools.iter().map(|tool| tool.name()).collect();
        f.debug_struct("SourcedTools")
            .field("revision", &self.revision)
            .field("tools", &names)
            .finish()
    }
}

/// Something that the user should be told of a source of tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceNews {
    /// How bad it is.
    pub level: NoticeLevel,
    /// What happened, for people.
    pub text: String,
}
