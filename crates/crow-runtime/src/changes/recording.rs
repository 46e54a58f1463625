//! One call, from the files before it to the files after it.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use crow_core::{
    ids::{SessionId, SnapshotId},
    tool::{Access, Effects, ToolMetadata},
};

use super::{ChangeDescription, JobWatch, describe};
use crate::{Activity, NotScanned, Scan, SnapshotEntry, SnapshotStore, SnapshotStoreError};
use crow_snapshot::WriteInProgress;

/// What a call may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChangeScope {
    /// These paths.
    Paths(Vec<PathBuf>),
    /// Any file of the roots.
    Roots,
}

impl ChangeScope {
    /// Tells what effects may change, if anything.
    pub(crate) fn of(effects: &Effects) -> Option<Self> {
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

/// What is captured before and after a call.
#[derive(Debug)]
enum CaptureTarget {
    /// The paths that it declared.
    Paths(Vec<PathBuf>),
    /// All of these roots.
    Roots(Vec<PathBuf>),
}

/// What is known of a call that may change files, before it runs.
#[derive(Debug)]
pub(crate) struct ChangeRecording {
    store: Arc<SnapshotStore>,
    session: SessionId,
    before: SnapshotId,
    what: CaptureTarget,
    /// Tells whether others were at work meanwhile. None: nobody watched.
    activity: Option<Activity>,
    watch: Arc<JobWatch>,
    /// A job of another session was at work when it began.
    others: bool,
    /// The roots that could not be captured.
    not_scanned: Vec<NotScanned>,
    /// Files that undos wrote since it began.
    copies: BTreeSet<PathBuf>,
    /// What lies half written beside its paths is its own.
    _writing: Option<WriteInProgress>,
}

/// What a call changed.
#[derive(Debug)]
pub(crate) struct RecordedChanges {
    before: SnapshotId,
    after: SnapshotId,
    described: ChangeDescription,
    shared: bool,
    not_scanned: Vec<NotScanned>,
}

impl ChangeRecording {
    /// Captures what a call may change. Blocks.
    pub(crate) fn begin(
        store: Arc<SnapshotStore>,
        watch: Arc<JobWatch>,
        session: SessionId,
        scope: &ChangeScope,
    ) -> Result<Self, SnapshotStoreError> {
        let activity = store.begin()?;
        watch.began(&store);
        let others = store.others_have_jobs(&session)?;
        let (before, what, not_scanned, writing) = match scope {
            ChangeScope::Paths(paths) => {
                let capture = store.capture(&session, paths)?;
                let writing = store.writing(&capture.paths)?;
                (capture.snapshot, CaptureTarget::Paths(capture.paths), Vec::new(), Some(writing))
            }
            ChangeScope::Roots => {
                let Scan { snapshot, not_scanned, .. } = watch.look(&store, &session, &activity)?;
                (snapshot, CaptureTarget::Roots(store.roots().to_vec()), not_scanned, None)
            }
        };
        let activity = Some(activity);
        Ok(Self {
            store,
            session,
            before,
            what,
            activity,
            watch,
            others,
            not_scanned,
            copies: BTreeSet::new(),
            _writing: writing,
        })
    }

    /// Goes on with a call whose end nobody saw. `copies` are the files that undos wrote since. Blocks.
    pub(crate) fn of_cut_off(
        store: Arc<SnapshotStore>,
        watch: Arc<JobWatch>,
        session: SessionId,
        before: SnapshotId,
        copies: BTreeSet<PathBuf>,
    ) -> Result<Self, SnapshotStoreError> {
        let what = match store.roots_of(&before)? {
            // The session may work in other roots by now.
            Some(roots) => CaptureTarget::Roots(roots),
            None => CaptureTarget::Paths(store.paths_of(&before)?.unwrap_or_default()),
        };
        let (activity, others, not_scanned) = (None, false, Vec::new());
        Ok(Self {
            store,
            session,
            before,
            what,
            activity,
            watch,
            others,
            not_scanned,
            copies,
            _writing: None,
        })
    }

    /// Returns the state before the call.
    pub(crate) fn before(&self) -> &SnapshotId {
        &self.before
    }

    /// Returns the roots that could not be captured before the call.
    pub(crate) fn not_scanned(&self) -> &[NotScanned] {
        &self.not_scanned
    }

    /// Captures the state after the call and tells what changed. Blocks.
    pub(crate) fn end(self) -> Result<RecordedChanges, SnapshotStoreError> {
        let Self { store, session, before, what, activity, watch, others, copies, .. } = self;
        let (after, not_scanned, is_any) = match &what {
            CaptureTarget::Paths(paths) => {
                (store.capture(&session, paths)?.snapshot, Vec::new(), false)
            }
            CaptureTarget::Roots(roots) => {
                let Scan { snapshot, not_scanned, .. } = store.scan_roots(&session, roots)?;
                (snapshot, not_scanned, true)
            }
        };
        let mut changes = store.changes(&before, &after)?;
        changes.retain(|change| {
            change.before != SnapshotEntry::Absent || !copies.contains(&change.path)
        });
        // Paths that a tool declares are written by it alone: it looks at them right before.
        let shared = match &activity {
            Some(activity) => {
                let mixed = activity.overlapped() || others || store.others_have_jobs(&session)?;
                is_any && mixed
            }
            None => true,
        };
        match &what {
            CaptureTarget::Paths(_) => watch.touch(&store, changes.clone())?,
            CaptureTarget::Roots(roots) if roots == store.roots() => {
                watch.know(&store, &after, shared);
            }
            // Of a call that was cut off when the session worked in other ones.
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

    /// Puts what changed into the metadata of the call's result. What the tool itself says of lines stays.
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
