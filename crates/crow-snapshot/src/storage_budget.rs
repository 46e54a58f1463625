//! The budget of a scan: how many bytes it may still store.

use std::{io, path::Path};

use super::{
    NotCoveredReason, SnapshotLimits, SnapshotStoreError,
    error::{io_error_at, is_disk_full},
    policy::free_space,
};

/// Divisor of the part of the store that is reserved for folders, so that scans still work when no content fits any
/// more.
const FOR_FOLDERS: u64 = 16;

/// The bytes that may still be stored, and those stored so far.
#[derive(Debug)]
pub(super) struct StorageBudget {
    /// Bytes left for contents.
    contents: u64,
    /// The reason reported when the contents do not fit.
    why: NotCoveredReason,
    /// Bytes left for contents and folders.
    all: u64,
    limit: u64,
    pub(super) written: u64,
}

impl StorageBudget {
    /// Measures the space left in the store and on the disk.
    pub(crate) fn new(
        folder: &Path,
        used: u64,
        limits: &SnapshotLimits,
    ) -> Result<Self, SnapshotStoreError> {
        let free =
            free_space(folder).map_err(io_error_at(folder))?.saturating_sub(limits.free_bytes);
        let for_contents = limits.store_bytes.saturating_sub(limits.store_bytes / FOR_FOLDERS);
        let room = for_contents.saturating_sub(used);
        let (contents, why) = [
            (room, NotCoveredReason::StoreFull),
            (free, NotCoveredReason::DiskFull),
            (limits.new_bytes, NotCoveredReason::TooMuchNew),
        ]
        .into_iter()
        .min_by_key(|(bytes, _)| *bytes)
        .unwrap_or((0, NotCoveredReason::StoreFull));
        let all = limits.store_bytes.saturating_sub(used);
        Ok(Self { contents, why, all, limit: limits.store_bytes, written: 0 })
    }

    /// Reserves space for a content.
    pub(super) fn take_content(&mut self, bytes: u64) -> Result<(), NotCoveredReason> {
        self.contents = self.contents.checked_sub(bytes).ok_or(self.why)?;
        self.all = self.all.saturating_sub(bytes);
        self.written = self.written.saturating_add(bytes);
        Ok(())
    }

    /// Reserves space for a folder or a list.
    pub(super) fn take_folder(&mut self, bytes: u64) -> Result<(), SnapshotStoreError> {
        let full = SnapshotStoreError::Full { limit: self.limit };
        self.all = self.all.checked_sub(bytes).ok_or(full)?;
        self.written = self.written.saturating_add(bytes);
        Ok(())
    }

    /// Turns a failed write of a content into the reason why it is not covered, if the disk is full.
    pub(super) fn disk_is_full(&mut self, error: &io::Error) -> Option<NotCoveredReason> {
        is_disk_full(error).then(|| {
            (self.contents, self.why) = (0, NotCoveredReason::DiskFull);
            self.why
        })
    }
}
