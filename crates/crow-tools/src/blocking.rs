//! Work that may block, off the executor.

use crow_core::tool::{ToolContext, ToolError};

/// Runs `work` to its end on a thread for blocking work.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| ToolError::Fatal(error.into()))
}

/// Runs `work`, which changes nothing, on a thread for blocking work. If the call is cancelled, does not wait for the
/// thread, because a file system may hang.
pub(crate) async fn blocking_until_cancelled<T: Send + 'static>(
    ctx: &ToolContext,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ToolError> {
    ctx.cancellation.run_until_cancelled(blocking(work)).await.ok_or(ToolError::Cancelled)?
}
