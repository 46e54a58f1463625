//! Stands in for the journal of the runtime until it is there.
#![expect(
    dead_code,
    missing_docs,
    clippy::unused_self,
    clippy::needless_pass_by_value,
    reason = "goes away"
)]

use std::path::{Path, PathBuf};

use crow_core::{ids::SessionId, tool::Patch};
use crow_runtime::{
    ChangedCall, Point, RuntimeConfig, SnapshotLimits, UndoError, UndoOptions, UndoRecord,
    UndoReport, UndoTarget,
};

pub(crate) struct UndoJournal(PathBuf);

impl UndoJournal {
    pub(crate) fn open(_: &RuntimeConfig, _: &SessionId) -> Result<Self, UndoError> {
        Err(UndoError::Unavailable)
    }
    pub(crate) fn calls(&self) -> &[ChangedCall] {
        &[]
    }
    pub(crate) fn records(&self) -> &[UndoRecord] {
        &[]
    }
    pub(crate) fn turns(&self) -> u32 {
        0
    }
    pub(crate) fn root(&self) -> &Path {
        &self.0
    }
    pub(crate) fn undo(&mut self, _: &UndoTarget, _: UndoOptions) -> Result<UndoReport, UndoError> {
        Err(UndoError::Unavailable)
    }
    pub(crate) fn redo(&mut self, _: UndoOptions) -> Result<UndoReport, UndoError> {
        Err(UndoError::Unavailable)
    }
    pub(crate) fn restore(
        &mut self,
        _: &Path,
        _: &Point,
        _: UndoOptions,
    ) -> Result<UndoReport, UndoError> {
        Err(UndoError::Unavailable)
    }
    pub(crate) fn diff(&self, _: &Point, _: &Point) -> Result<Patch, UndoError> {
        Err(UndoError::Unavailable)
    }
}

#[derive(Debug)]
pub(crate) struct SnapshotStores;

impl SnapshotStores {
    pub(crate) fn new(_: impl Into<PathBuf>, _: SnapshotLimits, _: Option<PathBuf>) -> Self {
        Self
    }
    pub(crate) fn forget_session(
        &self,
        _: &Path,
        _: &SessionId,
    ) -> Result<(), crow_runtime::SnapshotStoreError> {
        Ok(())
    }
}
