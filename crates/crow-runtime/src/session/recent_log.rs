//! The log that was read last, for whoever reads it next: a session that is opened is mostly shown right after.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crow_core::event::Envelope;

use super::{
    SessionError,
    log_file::{LogContent, read_on},
};

/// A place for one log. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct RecentLog(Arc<Mutex<Option<CachedSessionLog>>>);

/// A log that was whole, as far as it was read. Its writer is alive: nobody else can have changed that part.
#[derive(Debug)]
pub(super) struct CachedSessionLog {
    folder: PathBuf,
    events: Vec<Envelope>,
    len: u64,
}

impl RecentLog {
    /// Keeps what was read of the log in a session's folder up to that length.
    pub(super) fn keep(&self, folder: &Path, events: Vec<Envelope>, len: u64) {
        *self.kept() = Some(CachedSessionLog { folder: folder.to_path_buf(), events, len });
    }

    /// Takes the log of that folder, if it is the one that is kept.
    pub(super) fn take(&self, folder: &Path) -> Option<CachedSessionLog> {
        self.kept().take_if(|kept| kept.folder == folder)
    }

    pub(super) fn forget(&self, folder: &Path) {
        drop(self.take(folder));
    }

    fn kept(&self) -> MutexGuard<'_, Option<CachedSessionLog>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedSessionLog {
    /// Reads what was appended since.
    pub(super) fn read_on(self, log: &Path) -> Result<LogContent, SessionError> {
        let Self { events, len, .. } = self;
        read_on(log, LogContent { events, lost: Vec::new(), torn: Vec::new(), good_len: len })
    }
}
