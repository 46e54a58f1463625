//! Calls that are run outside: in an editor, by a person, on another machine.

use std::fmt;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::{ids::CallId, tool_types::ToolResult};

/// Waits for the results of calls that are run outside.
#[async_trait]
pub trait DelegatedCalls: Send + Sync + fmt::Debug {
    /// Registers a call whose result will come from outside: a result that arrives before the wait is stored.
    fn expect(&self, call_id: &CallId);

    /// Waits for the result of a call. Returns a cancelled result if `cancellation` is cancelled first.
    async fn result(&self, call_id: &CallId, cancellation: &CancellationToken) -> ToolResult;
}
