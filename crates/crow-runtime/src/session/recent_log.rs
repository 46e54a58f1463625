//! Cache of the log that was read last: a session that is opened is usually displayed right after.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crow_core::event::Envelope;

use super::{
    SessionError,
    log_file::{LogContent, read_on},
};

/// A cache slot for one log. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct RecentLog(Arc<Mutex<Option<CachedSessionLog>>>);

/// The undamaged prefix of a log that was read. Its writer is alive, so no other process can have changed that part.
#[derive(Debug)]
pub(super) struct CachedSessionLog {
    folder: PathBuf,
    events: Vec<Envelope>,
    len: u64,
}

impl RecentLog {
    /// Stores the events read from the log of a session folder, up to the given length in bytes.
    pub(super) fn keep(&self, folder: &Path, events: Vec<Envelope>, len: u64) {
        *self.slot() = Some(CachedSessionLog { folder: folder.to_path_buf(), events, len });
    }

    /// Takes the cached log if it is that of the folder.
    pub(super) fn take(&self, folder: &Path) -> Option<CachedSessionLog> {
        self.slot().take_if(|cached| cached.folder == folder)
    }

    pub(super) fn forget(&self, folder: &Path) {
        drop(self.take(folder));
    }

    fn slot(&self) -> MutexGuard<'_, Option<CachedSessionLog>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedSessionLog {
    /// Reads the events appended since.
    pub(super) fn read_on(self, log: &Path) -> Result<LogContent, SessionError> {
        let Self { events, len, .. } = self;
        read_on(log, LogContent { events, lost: Vec::new(), torn: Vec::new(), good_len: len })
    }
}
