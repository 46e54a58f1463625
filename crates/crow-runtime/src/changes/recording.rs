//! One call, from the files before it to the files after it.

use std::{path::PathBuf, sync::Arc};

use crow_core::{
    ids::{SessionId, SnapshotId},
    tool::{Access, Effects, ToolMetadata},
};

use super::{Described, JobWatch, describe};
use crate::{Activity, SnapshotStore, SnapshotStoreError};

/// What a call may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// These paths.
    Paths(Vec<PathBuf>),
    /// Any file of the project.
    Project,
}

impl Scope {
    /// Tells what effects may change, if anything.
    pub(crate) fn of(effects: &Effects) -> Option<Self> {
        match effects {
            Effects::None => None,
            Effects::Paths(paths) => {
                let written = paths.iter().filter(|path| path.access == Access::Write);
                let written: Vec<PathBuf> = written.map(|path| path.path.clone()).collect();
                (!written.is_empty()).then_some(Self::Paths(written))
            }
            Effects::Unknown | Effects::UserCommands => Some(Self::Project),
        }
    }
}

/// What is known of a call that may change files, before it runs.
#[derive(Debug)]
pub(crate) struct Recording {
    store: Arc<SnapshotStore>,
    session: SessionId,
    before: SnapshotId,
    /// The paths that it declared, or none: it may change any.
    paths: Option<Vec<PathBuf>>,
    /// Tells whether others were at work meanwhile. None: nobody watched.
    activity: Option<Activity>,
    watch: Arc<JobWatch>,
    /// A job of another session was at work when it began.
    others: bool,
}

/// What a call changed.
#[derive(Debug)]
pub(crate) struct Recorded {
    before: SnapshotId,
    after: SnapshotId,
    described: Described,
    shared: bool,
}

impl Recording {
    /// Captures what a call may change. Blocks.
    pub(crate) fn begin(
        store: Arc<SnapshotStore>,
        watch: Arc<JobWatch>,
        session: SessionId,
        scope: &Scope,
    ) -> Result<Self, SnapshotStoreError> {
        let activity = store.begin()?;
        watch.began();
        let others = store.others_have_jobs(&session)?;
        let (before, paths) = match scope {
            Scope::Paths(paths) => {
                let capture = store.capture(&session, paths)?;
                (capture.snapshot, Some(capture.paths))
            }
            Scope::Project => (watch.look(&store, &session, &activity)?, None),
        };
        Ok(Self { store, session, before, paths, activity: Some(activity), watch, others })
    }

    /// Goes on with a call whose end nobody saw. Blocks.
    pub(crate) fn of_cut_off(
        store: Arc<SnapshotStore>,
        watch: Arc<JobWatch>,
        session: SessionId,
        before: SnapshotId,
    ) -> Result<Self, SnapshotStoreError> {
        let paths = store.paths_of(&before)?;
        Ok(Self { store, session, before, paths, activity: None, watch, others: false })
    }

    /// Returns the state before the call.
    pub(crate) fn before(&self) -> &SnapshotId {
        &self.before
    }

    /// Captures the state after the call and tells what changed. Blocks.
    pub(crate) fn end(self) -> Result<Recorded, SnapshotStoreError> {
        let Self { store, session, before, paths, activity, watch, others } = self;
        let after = match &paths {
            Some(paths) => store.capture(&session, paths)?.snapshot,
            None => store.scan(&session)?.snapshot,
        };
        let changes = store.changes(&before, &after)?;
        // Paths that a tool declares are written by it alone: it looks at them right before.
        let shared = match &activity {
            Some(activity) => {
                let mixed = activity.overlapped() || others || store.others_have_jobs(&session)?;
                paths.is_none() && mixed
            }
            None => true,
        };
        if paths.is_none() {
            watch.know(&store, &after, shared);
        } else {
            watch.touch(changes.clone());
        }
        let shared = shared && !changes.is_empty();
        Ok(Recorded { before, after, described: describe(&store, &changes), shared })
    }
}

impl Recorded {
    /// Puts what changed into the metadata of the call's result. What the tool itself says of lines stays.
    pub(crate) fn add_to(self, metadata: &mut ToolMetadata) {
        let Self { before, after, described, shared } = self;
        let Described { files, patch, counts, not_restorable } = described;
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
