//! Calls that are run outside: in an editor, by a person, on another machine.

use std::fmt;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::{ids::CallId, tool_types::ToolResult};

/// Waits for the results of calls that are run outside.
#[async_trait]
pub trait OutsideCalls: Send + Sync + fmt::Debug {
    /// Says that the result of a call will come from outside: one that comes before it is waited for is kept.
    fn expect(&self, call_id: &CallId);

    /// Waits for the result of a call. Returns a cancelled result when `cancellation` is cancelled before.
    async fn result(&self, call_id: &CallId, cancellation: &CancellationToken) -> ToolResult;
}
