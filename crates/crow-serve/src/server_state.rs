//! State that all request handlers share.

use std::{fmt, path::PathBuf, sync::Arc};

use crow_core::{model::Models, redact::Redactor};
use crow_runtime::SessionStore;
use jiff::tz::TimeZone;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{hosted::HostedSessions, overview::StoredSessions};

/// State that all request handlers share.
pub(crate) struct LiveServerState {
    pub hosted: Arc<HostedSessions>,
    pub store: Arc<dyn SessionStore>,
    pub models: Arc<dyn Models>,
    pub redactor: Box<dyn Fn() -> Redactor + Send + Sync>,
    pub cwd: PathBuf,
    pub zone: TimeZone,
    pub version: String,
    /// Actions that go on when their client disconnects.
    pub actions: TaskTracker,
    /// Turns of reports and views that are rendered at the same time.
    pub rendering: Arc<Semaphore>,
    pub stored: Arc<StoredSessions>,
    /// Room for open event streams.
    pub streams: Arc<Semaphore>,
    /// Cancelled when the server stops.
    pub ended: CancellationToken,
}

impl fmt::Debug for LiveServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveServerState").field("hosted", &self.hosted).finish_non_exhaustive()
    }
}
