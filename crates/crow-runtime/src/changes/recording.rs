//! Recording of the changes of one call: a capture before it, a capture after it, and the difference.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use crow_core::{
    ids::{SessionId, SnapshotId},
    tool::{Access, Effects, ToolMetadata},
};

use super::{ChangeDescription, JobWatch, describe};
use crate::{Activity, NotScanned, Scan, SnapshotEntry, SnapshotStore, SnapshotStoreError};
use crow_snapshot::WriteInProgress;

/// The files that a call may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChangeScope {
    /// The declared paths.
    Paths(Vec<PathBuf>),
    /// Any file in the roots.
    Roots,
}

impl ChangeScope {
    /// Returns the scope of effects, or `None` if they change nothing.
    pub(crate) fn of_effects(effects: &Effects) -> Option<Self> {
        match effects {
            Effects::None => None,
            Effects::Paths(paths) => {
                let written = paths.iter().filter(|path| path.access == Access::Write);
                let written: Vec<PathBuf> = written.map(|path| path.path.clone()).collect();
                (!written.is_empty()).then_some(Self::Paths(written))
            }
            Effects::Unknown | Effects::UserCommands => Some(Self::Roots),
        }
    }
}

/// The files captured before and after a call.
#[derive(Debug)]
enum CaptureTarget {
    /// The declared paths.
    Paths(Vec<PathBuf>),
    /// Everything in these roots.
    Roots(Vec<PathBuf>),
}

/// A recording in progress: the state before a call that may change files.
#[derive(Debug)]
pub(crate) struct ChangeRecording {
    store: Arc<SnapshotStore>,
    session: SessionId,
    before: SnapshotId,
    target: CaptureTarget,
    /// Tells whether others were active meanwhile. `None` for a call that was cut off, during which nothing was
    /// monitored.
    activity: Option<Activity>,
    watch: Arc<JobWatch>,
    /// True if a job of another session was running when the call began.
    others: bool,
    /// The roots that could not be captured before the call.
    not_scanned: Vec<NotScanned>,
    /// Copies that undos wrote since the call began; not changes of the call.
    copies: BTreeSet<PathBuf>,
    /// Marks temporary files next to the declared paths as those of this call.
    _writing: Option<WriteInProgress>,
}

/// The recorded changes of a call.
#[derive(Debug)]
pub(crate) struct RecordedChanges {
    before: SnapshotId,
    after: SnapshotId,
    described: ChangeDescription,
    shared: bool,
    not_scanned: Vec<NotScanned>,
}

impl ChangeRecording {
    /// Captures the files that a call may change. Blocks.
    pub(crate) fn begin(
        store: Arc<SnapshotStore>,
        watch: Arc<JobWatch>,
        session: SessionId,
        scope: &ChangeScope,
    ) -> Result<Self, SnapshotStoreError> {
        let activity = store.activities().begin()?;
        watch.count_activity(&store);
        let others = store.activities().others_have_jobs(&session)?;
        let (before, target, not_scanned, writing) = match scope {
            ChangeScope::Paths(paths) => {
                let capture = store.capture(&session, paths)?;
                let writing = store.begin_write(&capture.paths)?;
                (capture.snapshot, CaptureTarget::Paths(capture.paths), Vec::new(), Some(writing))
            }
            ChangeScope::Roots => {
                let Scan { snapshot, not_scanned, .. } = watch.scan(&store, &session, &activity)?;
                (snapshot, CaptureTarget::Roots(store.roots().to_vec()), not_scanned, None)
            }
        };
        let activity = Some(activity);
        Ok(Self {
            store,
            session,
            before,
            target,
            activity,
            watch,
            others,
            not_scanned,
            copies: BTreeSet::new(),
            _writing: writing,
        })
    }

    /// Creates the recording of a call that was cut off. `copies` are the files that undos wrote since. Blocks.
    pub(crate) fn of_cut_off(
        store: Arc<SnapshotStore>,
        watch: Arc<JobWatch>,
        session: SessionId,
        before: SnapshotId,
        copies: BTreeSet<PathBuf>,
    ) -> Result<Self, SnapshotStoreError> {
        let target = match store.roots_of(&before)? {
            // The session may have other roots by now.
            Some(roots) => CaptureTarget::Roots(roots),
            None => CaptureTarget::Paths(
                store
                    .paths_of(&before)?
                    .expect("invariant: a snapshot without roots is one of single paths"),
            ),
        };
        let (activity, others, not_scanned) = (None, false, Vec::new());
        Ok(Self {
            store,
            session,
            before,
            target,
            activity,
            watch,
            others,
            not_scanned,
            copies,
            _writing: None,
        })
    }

    /// Returns the snapshot before the call.
    pub(crate) fn before(&self) -> &SnapshotId {
        &self.before
    }

    /// Returns the roots that could not be captured before the call.
    pub(crate) fn not_scanned(&self) -> &[NotScanned] {
        &self.not_scanned
    }

    /// Captures the state after the call and computes the changes. Blocks.
    pub(crate) fn end(self) -> Result<RecordedChanges, SnapshotStoreError> {
        let Self { store, session, before, target, activity, watch, others, copies, .. } = self;
        // 1) The state after the call, and the difference.
        let (after, not_scanned, is_any) = match &target {
            CaptureTarget::Paths(paths) => {
                (store.capture(&session, paths)?.snapshot, Vec::new(), false)
            }
            CaptureTarget::Roots(roots) => {
                let Scan { snapshot, not_scanned, .. } = store.scan_roots(&session, roots)?;
                (snapshot, not_scanned, true)
            }
        };
        let mut changes = store.changes(&before, &after)?;
        // Copies made by undos are not changes of the call.
        changes.retain(|change| {
            change.before != SnapshotEntry::Absent || !copies.contains(&change.path)
        });
        // Declared paths are only written by the tool, which checks them just before, so they are never shared.
        let shared = match &activity {
            Some(activity) => {
                let mixed = activity.overlapped()
                    || others
                    || store.activities().others_have_jobs(&session)?;
                is_any && mixed
            }
            None => true,
        };
        // 2) The baseline of running jobs.
        match &target {
            CaptureTarget::Paths(_) => watch.touch(&store, changes.clone())?,
            CaptureTarget::Roots(roots) if roots == store.roots() => {
                watch.set_baseline(&store, &after, shared);
            }
            // The roots of the session changed since the call was cut off.
            CaptureTarget::Roots(_) => {}
        }
        let shared = shared && !changes.is_empty();
        Ok(RecordedChanges {
            before,
            after,
            described: describe(&store, &changes),
            shared,
            not_scanned,
        })
    }
}

impl RecordedChanges {
    /// Returns the roots that could not be captured after the call.
    pub(crate) fn not_scanned(&self) -> &[NotScanned] {
        &self.not_scanned
    }

    /// Adds the changes to the metadata of the call's result. A diff by the tool itself is kept; only its kinds of
    /// change are corrected.
    pub(crate) fn add_to(self, metadata: &mut ToolMetadata) {
        let Self { before, after, described, shared, .. } = self;
        let ChangeDescription { files, patch, counts, not_restorable } = described;
        metadata.snapshot_before = Some(before);
        metadata.snapshot_after = Some(after);
        metadata.not_restorable = not_restorable;
        metadata.shared = shared;
        if counts.paths() == 0 {
            return;
        }
        metadata.files_modified = files;
        metadata.changes = Some(counts);
        match &mut metadata.diff {
            None => metadata.diff = Some(patch),
            Some(own) => {
                for diff in &mut own.files {
                    if let Some(seen) = patch.files.iter().find(|seen| seen.path == diff.path) {
                        diff.change = seen.change;
                    }
                }
            }
        }
    }
}
