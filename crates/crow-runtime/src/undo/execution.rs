//! Carries out an undo, redo or restore, path by path.
//!
//! Steps: sort out refused paths, capture the current state of all paths, announce the intent (so that an interrupted
//! undo can be completed later), put the paths back through the snapshot store, capture the result. The store replaces
//! a path only if it is in the expected state; anything else is a conflict and stays, unless `force` is set and helps.
//! With `force`, content that others may have made is copied before it is overwritten.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};

use crow_core::{
    ids::{SessionId, SnapshotId, UndoId},
    tool::FileChange,
};
use crow_fs::{Directory, EntryName};

use super::{
    ChangedCall, PathOutcome, RestoredPath, UndoAction, UndoError,
    reversal::{Reversal, StepAuthor},
};
use crate::{
    ContentRef, NotCoveredReason, PathChange, RestoreOutcome, RestoreResult, SnapshotEntry,
    SnapshotStore, SnapshotStoreError,
};

/// The undo, redo or restore to carry out.
#[derive(Debug)]
pub(super) struct UndoRequest {
    pub(super) action: UndoAction,
    pub(super) reversals: Vec<Reversal>,
    /// The authors of the changes to undo.
    pub(super) authors: Vec<StepAuthor>,
    /// Indexes of the calls that are undone or redone.
    pub(super) calls: Vec<usize>,
    pub(super) reverses: Option<UndoId>,
    /// Reversals of the authors' other changes, which stay because only some paths were chosen.
    pub(super) not_chosen: Vec<Reversal>,
    /// The turn before which the conversation continues, and the number of the last event before it.
    pub(super) last_kept: Option<(u32, u64)>,
    /// Paths changed in the removed part of the conversation that stay, because only the conversation is rewound.
    pub(super) remaining: Vec<PathBuf>,
}

/// Extent to which a path was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RewindExtent {
    /// Not at all.
    Unchanged,
    /// Up to the first gap where a foreign edit lies between two changes.
    Joined,
    /// To the state before the first of the changes.
    First,
}

/// The state just before the first path is touched.
#[derive(Debug)]
pub(super) struct PreparedUndo {
    pub(super) before: SnapshotId,
    /// Snapshot of the states that the paths are meant to get.
    pub(super) intent: SnapshotId,
    /// Intended extent for each path.
    pub(super) extents: BTreeMap<PathBuf, RewindExtent>,
}

/// The result of carrying out a request.
#[derive(Debug)]
pub(super) struct CompletedUndo {
    pub(super) paths: Vec<RestoredPath>,
    pub(super) extents: BTreeMap<PathBuf, RewindExtent>,
    /// True if the intent was announced.
    pub(super) is_announced: bool,
    pub(super) before: SnapshotId,
    pub(super) after: SnapshotId,
}

/// Carries out requests for one session.
#[derive(Debug)]
pub(super) struct UndoExecution<'a> {
    pub(super) store: &'a SnapshotStore,
    pub(super) session: &'a SessionId,
    pub(super) calls: &'a [ChangedCall],
    /// Roots that no longer exist: nothing is put into a new folder of the same name.
    pub(super) missing_roots: Vec<PathBuf>,
    pub(super) force: bool,
}

/// Reversals to try, and those refused before anything is touched.
#[derive(Debug, Default)]
struct SortedReversals<'a> {
    changes: Vec<PathChange>,
    reversals: BTreeMap<&'a Path, &'a Reversal>,
    refused: Vec<RestoredPath>,
}

impl UndoExecution<'_> {
    /// Predicts the outcome of each path without touching anything.
    pub(super) fn preview(&self, request: &UndoRequest) -> Result<Vec<RestoredPath>, UndoError> {
        let SortedReversals { changes, reversals, refused } = self.sort(request);
        let mut outcomes = refused;
        for restored in self.store.preview(&changes)? {
            let reversal = reversals.get(restored.path.as_path()).copied();
            let is_forcible = self.is_forcible(&restored, reversal)?;
            let outcome = if self.force && is_forcible {
                PathOutcome::Restored { how: change_of(reversal), copy: None }
            } else {
                self.outcome(&restored, reversal, is_forcible)
            };
            outcomes.push(RestoredPath { path: restored.path, outcome });
        }
        Ok(sort_and_prune(outcomes))
    }

    /// Puts the paths back. Captures their current state first, so that this can be undone. `announce` is called before
    /// the first path is touched; if it fails, nothing is changed.
    pub(super) fn execute(
        &self,
        request: &UndoRequest,
        announce: &dyn Fn(&PreparedUndo) -> Result<(), UndoError>,
    ) -> Result<CompletedUndo, UndoError> {
        // Calls of other processes that scan the files meanwhile see that another writer was active.
        let _activity = self.store.activities().begin()?;
        // 1) Refusals, and the current state of all paths.
        let SortedReversals { mut changes, reversals, refused } = self.sort(request);
        let all = Self::with_missing_folders(&changes);
        let before = self.store.capture_exactly(self.session, &all)?;
        let mut outcomes = refused;
        if request.action == UndoAction::Restore && !self.force {
            // A restore overwrites content of unknown origin, so only if that was captured and can be brought back.
            outcomes.extend(self.take_uncaptured(&before, &mut changes)?);
        }
        // 2) The announced intent.
        let mut reached: BTreeMap<PathBuf, RewindExtent> =
            outcomes.iter().map(|path| (path.path.clone(), RewindExtent::Unchanged)).collect();
        let goal = if self.force { RewindExtent::First } else { RewindExtent::Joined };
        reached.extend(changes.iter().map(|change| (change.path.clone(), goal)));
        let is_announced = !changes.is_empty();
        if is_announced {
            let intent = self.store.record(self.session, &changes)?.0;
            announce(&PreparedUndo { before: before.clone(), intent, extents: reached.clone() })?;
        }
        // 3) The paths, with the results of force where needed.
        let mut not_empty = BTreeSet::new();
        let mut copies = self.copy_doubtful(request, &changes, &reversals)?;
        for restored in self.store.undo(&changes)? {
            let reversal = reversals.get(restored.path.as_path()).copied();
            let is_put =
                matches!(restored.result, Ok(RestoreResult::Done | RestoreResult::Unchanged));
            let is_forcible = self.is_forcible(&restored, reversal)?;
            let mut outcome = match reversal {
                Some(reversal) if self.force && is_forcible => {
                    self.force(&reversal.change, &reversal.first)
                }
                _ => self.outcome(&restored, reversal, is_forcible),
            };
            if let PathOutcome::Restored { copy, .. } = &mut outcome {
                *copy = copy.take().or_else(|| copies.remove(&restored.path));
            }
            let is_not_empty = matches!(restored.result, Ok(RestoreResult::NotEmpty));
            if is_not_empty {
                not_empty.insert(restored.path.clone());
            }
            // A folder to be removed that contains files of others: nothing more can be done for it, even by force.
            let is_left = is_unresolved(&outcome) && (is_forcible || !is_not_empty);
            // If a foreign edit only blocks the rest of the chain, the joined part counts as undone.
            if is_left && !is_put {
                reached.insert(restored.path.clone(), RewindExtent::Unchanged);
            }
            outcomes.push(RestoredPath { path: restored.path, outcome });
        }
        accept_folders_of_copies(&mut outcomes, not_empty);
        let after = self.store.capture_exactly(self.session, &all)?;
        Ok(CompletedUndo {
            paths: sort_and_prune(outcomes),
            extents: reached,
            is_announced,
            before,
            after,
        })
    }

    /// Returns the changed paths and the missing parent folders that will be created, so that undoing this removes them
    /// again.
    fn with_missing_folders(changes: &[PathChange]) -> Vec<PathBuf> {
        let mut all: BTreeSet<PathBuf> = BTreeSet::new();
        for change in changes {
            all.insert(change.path.clone());
            if change.before == SnapshotEntry::Absent {
                continue;
            }
            for folder in change.path.ancestors().skip(1) {
                let is_missing = crow_fs::metadata(folder)
                    .is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
                if !is_missing || all.contains(folder) {
                    break;
                }
                all.insert(folder.to_path_buf());
            }
        }
        all.into_iter().collect()
    }

    /// Separates the reversals to try from those that are refused because others may have made the change.
    fn sort<'r>(&self, request: &'r UndoRequest) -> SortedReversals<'r> {
        let mut sorted = SortedReversals::default();
        for reversal in &request.reversals {
            if request.action == UndoAction::Undo && reversal.is_nothing() {
                // Changed and changed back: nothing to do.
                continue;
            }
            let mut change = reversal.change.clone();
            if self.force {
                change.before = reversal.first.clone();
            }
            // Refusals that force cannot override come first, then those that it can.
            let hard_refusal = self
                .gone_root_reason(&change.path)
                .or_else(|| reversal.later.map(|author| self.later_reason(author)));
            let refusal = hard_refusal.map(|reason| (reason, false)).or_else(|| {
                let reason = self.refusal(request.action, reversal).filter(|_| !self.force)?;
                Some((reason, true))
            });
            if let Some((reason, forcible)) = refusal {
                let outcome = PathOutcome::Conflict { reason, forcible };
                sorted.refused.push(RestoredPath { path: change.path, outcome });
                continue;
            }
            sorted.reversals.insert(&reversal.change.path, reversal);
            sorted.changes.push(change);
        }
        sorted
    }

    fn gone_root_reason(&self, path: &Path) -> Option<String> {
        let root = self.missing_roots.iter().find(|root| path.starts_with(root))?;
        Some(format!("{} is gone: was it moved?", root.display()))
    }

    fn later_reason(&self, author: StepAuthor) -> String {
        format!("{} changed it since: undo that first", self.name(author))
    }

    fn name(&self, author: StepAuthor) -> String {
        match author {
            StepAuthor::Call(call) => {
                self.calls.get(call).map_or_else(|| "a call".to_owned(), call_label)
            }
            StepAuthor::Restore(_) => "a restore".to_owned(),
        }
    }

    fn refusal(&self, action: UndoAction, reversal: &Reversal) -> Option<String> {
        if let Some(call) = reversal.shared {
            return Some(self.shared_reason(call));
        }
        if action == UndoAction::Restore
            && let SnapshotEntry::File { content: ContentRef::NotStored { why, .. }, .. } =
                &reversal.change.after
        {
            return Some(not_kept_reason(*why));
        }
        None
    }

    /// Removes the changes whose current content could not be captured, and returns them as conflicts.
    fn take_uncaptured(
        &self,
        before: &SnapshotId,
        changes: &mut Vec<PathChange>,
    ) -> Result<Vec<RestoredPath>, UndoError> {
        let mut uncaptured = BTreeMap::new();
        for change in changes.iter() {
            if let Some(SnapshotEntry::File {
                content: ContentRef::NotStored { why, .. }, ..
            }) = self.store.entry(before, &change.path)?
            {
                uncaptured.insert(change.path.clone(), why);
            }
        }
        changes.retain(|change| !uncaptured.contains_key(&change.path));
        let refused = |(path, why)| RestoredPath {
            path,
            outcome: PathOutcome::Conflict { reason: not_kept_reason(why), forcible: true },
        };
        Ok(uncaptured.into_iter().map(refused).collect())
    }

    /// With force, copies current content that another writer may have made, before it is overwritten. Returns the
    /// copies by path.
    fn copy_doubtful(
        &self,
        request: &UndoRequest,
        changes: &[PathChange],
        reversals: &BTreeMap<&Path, &Reversal>,
    ) -> Result<BTreeMap<PathBuf, PathBuf>, UndoError> {
        let mut copies = BTreeMap::new();
        if !self.force {
            return Ok(copies);
        }
        for change in changes {
            let Some(reversal) = reversals.get(change.path.as_path()) else { continue };
            let is_doubtful = request.action == UndoAction::Restore
                || reversal.shared.is_some()
                || reversal.broken_after.is_some();
            if !is_doubtful || !self.store.is_reached_directly(&change.path)? {
                continue;
            }
            if self.store.current_entry(&change.path, &change.before)? != change.before
                && let Some(copy) = self.store.keep_copy(&change.path)?
            {
                copies.insert(change.path.clone(), copy);
            }
        }
        Ok(copies)
    }

    /// Returns true if force helps. It does not for a path behind a link, nor for a folder to be removed that contains
    /// files of others. A folder in the place of a file is moved aside with its content.
    fn is_forcible(
        &self,
        restored: &RestoreOutcome,
        reversal: Option<&Reversal>,
    ) -> Result<bool, UndoError> {
        let Some(reversal) = reversal else { return Ok(false) };
        // Force can only help against content that is in the way.
        let is_in_the_way = match &restored.result {
            Ok(RestoreResult::Conflict { .. }) => true,
            Ok(RestoreResult::NotEmpty) => reversal.first != SnapshotEntry::Absent,
            Ok(
                RestoreResult::Done | RestoreResult::Unchanged | RestoreResult::NotCovered { .. },
            )
            | Err(_) => false,
        };
        Ok(is_in_the_way && self.store.is_reached_directly(&restored.path)?)
    }

    fn shared_reason(&self, call: usize) -> String {
        match self.calls.get(call) {
            Some(call) if call.cut_off => format!(
                "{} was cut off, so it is unclear whether it or something else changed this",
                call_label(call)
            ),
            Some(call) => {
                format!(
                    "others were at work while {} ran and may have changed it",
                    call_label(call)
                )
            }
            None => "others may have changed it".to_owned(),
        }
    }

    fn outcome(
        &self,
        restored: &RestoreOutcome,
        reversal: Option<&Reversal>,
        is_forcible: bool,
    ) -> PathOutcome {
        let conflict = |reason: String, helps: bool| PathOutcome::Conflict {
            reason,
            forcible: helps && !self.force,
        };
        match &restored.result {
            Ok(RestoreResult::Done | RestoreResult::Unchanged)
                if let Some(author) = reversal.and_then(|reversal| reversal.broken_after)
                    && !self.force =>
            {
                let by = self.name(author);
                let reason = format!("it was changed after {by}, and the changes of {by} stay");
                conflict(reason, true)
            }
            Ok(RestoreResult::Done) => {
                PathOutcome::Restored { how: change_of(reversal), copy: None }
            }
            Ok(RestoreResult::Unchanged) => PathOutcome::Unchanged,
            Ok(RestoreResult::Conflict { found }) => {
                let expected = reversal.map(|reversal| &reversal.change.after);
                conflict(conflict_reason(found, expected), is_forcible)
            }
            Ok(RestoreResult::NotEmpty) => {
                conflict("something else is in the folder".to_owned(), is_forcible)
            }
            Ok(RestoreResult::NotCovered { why }) => {
                PathOutcome::NotRestorable { reason: why.to_string() }
            }
            Err(error) => PathOutcome::Failed { error: error.to_string() },
        }
    }

    /// Puts a path back although it is not in the expected state, and keeps a copy of its current content.
    fn force(&self, change: &PathChange, wanted: &SnapshotEntry) -> PathOutcome {
        let path = &change.path;
        let forced = || -> Result<PathOutcome, SnapshotStoreError> {
            let mut copy = self.store.keep_copy(path)?;
            let found = self.store.current_entry(path, &change.after)?;
            let mut put = self.store.restore_path(path, &found, wanted);
            // A folder that is not empty cannot be replaced in one step, so it is moved aside as a whole.
            if matches!(put, Ok(RestoreResult::NotEmpty)) {
                copy = self.store.move_aside(path)?;
                put = match self.store.restore_path(path, &SnapshotEntry::Absent, wanted) {
                    // The wanted state is absence.
                    Ok(RestoreResult::Unchanged) => Ok(RestoreResult::Done),
                    put => put,
                };
            }
            let how = change_between(&found, wanted);
            let restored = RestoreOutcome { path: path.clone(), result: put };
            Ok(match (self.outcome(&restored, None, false), copy) {
                (PathOutcome::Restored { .. }, copy) => PathOutcome::Restored { how, copy },
                (PathOutcome::Failed { error }, Some(copy)) => {
                    let error = format!("{error}; the previous content is in {}", copy.display());
                    PathOutcome::Failed { error }
                }
                (outcome, _) => outcome,
            })
        };
        forced().unwrap_or_else(|error| PathOutcome::Failed { error: error.to_string() })
    }
}

/// Marks folders as done that remain only because of copies kept in them: nothing of a call is left there.
fn accept_folders_of_copies(outcomes: &mut [RestoredPath], not_empty: BTreeSet<PathBuf>) {
    let mut own: BTreeSet<PathBuf> =
        outcomes.iter().filter_map(RestoredPath::copy).cloned().collect();
    // In reverse, since the content of a folder sorts after it.
    for folder in not_empty.into_iter().rev() {
        let names = Directory::open(&folder).and_then(|directory| directory.names());
        let is_own = |name: &EntryName| own.contains(&folder.join(name.as_os_str()));
        if !names.is_ok_and(|names| names.iter().all(is_own)) {
            continue;
        }
        for done in outcomes.iter_mut().filter(|done| done.path == folder) {
            done.outcome = PathOutcome::Unchanged;
        }
        own.insert(folder);
    }
}

/// Returns true if the path is not done.
fn is_unresolved(outcome: &PathOutcome) -> bool {
    matches!(outcome, PathOutcome::Conflict { .. } | PathOutcome::Failed { .. })
}

fn not_kept_reason(why: NotCoveredReason) -> String {
    format!("the current content cannot be saved ({why}), so it was left alone")
}

fn change_of(reversal: Option<&Reversal>) -> FileChange {
    reversal.map_or(FileChange::Modified, |reversal| {
        change_between(&reversal.change.after, &reversal.change.before)
    })
}

pub(super) fn change_between(is: &SnapshotEntry, becomes: &SnapshotEntry) -> FileChange {
    match (is, becomes) {
        (SnapshotEntry::Absent, _) => FileChange::Created,
        (_, SnapshotEntry::Absent) => FileChange::Deleted,
        _ => FileChange::Modified,
    }
}

fn conflict_reason(found: &SnapshotEntry, expected: Option<&SnapshotEntry>) -> String {
    match (found, expected) {
        (SnapshotEntry::Absent, _) => "it was deleted since",
        (_, Some(SnapshotEntry::Absent)) => "it was created again since",
        (SnapshotEntry::Folder { .. }, _) => "a folder is there now",
        (SnapshotEntry::Link { .. }, _) => "a link is there now",
        _ => "it was changed since",
    }
    .to_owned()
}

/// Returns the name of a call for texts.
fn call_label(call: &ChangedCall) -> String {
    format!("{} `{}`", call.tool, call.title)
}

/// Sorts the paths, and drops folders without conflict or copy if a path inside them is listed.
fn sort_and_prune(mut paths: Vec<RestoredPath>) -> Vec<RestoredPath> {
    paths.sort_by(|a, b| a.path.cmp(&b.path));
    paths.dedup_by(|a, b| a.path == b.path);
    let keep: Vec<bool> = paths
        .iter()
        .enumerate()
        .map(|(at, path)| {
            let inner = paths.get(at + 1).is_some_and(|next| next.path.starts_with(&path.path));
            // The location of a copy must be reported.
            let plain = matches!(
                path.outcome,
                PathOutcome::Restored { copy: None, .. } | PathOutcome::Unchanged
            );
            !(inner && plain)
        })
        .collect();
    let mut keep = keep.into_iter();
    paths.retain(|_| keep.next().unwrap_or(true));
    paths
}
