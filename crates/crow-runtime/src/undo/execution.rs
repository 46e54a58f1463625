//! Putting paths back, and saying what became of each.

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
    ContentRef, PathChange, PutBack, RestoreOutcome, SnapshotEntry, SnapshotStore,
    SnapshotStoreError, WhyNotCovered,
};

/// What is to be done.
#[derive(Debug)]
pub(super) struct UndoRequest {
    pub(super) action: UndoAction,
    pub(super) reversals: Vec<Reversal>,
    /// Whose changes an undo is about.
    pub(super) authors: Vec<StepAuthor>,
    /// The places of the calls that are undone or redone.
    pub(super) calls: Vec<usize>,
    pub(super) reverses: Option<UndoId>,
    /// The turn before which the conversation goes on, and the last event before it.
    pub(super) last_kept: Option<(u32, u64)>,
}

/// How far a path was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RewindExtent {
    /// Not at all.
    Left,
    /// As far as the changes join.
    Joined,
    /// To what it was before the first of the changes.
    First,
}

/// What is known before anything is touched.
#[derive(Debug)]
pub(super) struct PreparedUndo {
    pub(super) before: SnapshotId,
    /// What the paths are to become.
    pub(super) intent: SnapshotId,
    /// How far each path is to be taken back.
    pub(super) reached: BTreeMap<PathBuf, RewindExtent>,
}

/// What was done.
#[derive(Debug)]
pub(super) struct CompletedUndo {
    pub(super) paths: Vec<RestoredPath>,
    pub(super) reached: BTreeMap<PathBuf, RewindExtent>,
    /// What was to be done was said before.
    pub(super) is_announced: bool,
    pub(super) before: SnapshotId,
    pub(super) after: SnapshotId,
}

/// Puts paths back.
#[derive(Debug)]
pub(super) struct UndoExecution<'a> {
    pub(super) store: &'a SnapshotStore,
    pub(super) session: &'a SessionId,
    pub(super) calls: &'a [ChangedCall],
    /// Roots that are not where they were: nothing is put into a folder that only has their name.
    pub(super) gone: Vec<PathBuf>,
    pub(super) force: bool,
}

/// What may be put back, and what is refused before anything is touched.
#[derive(Debug, Default)]
struct SortedReversals<'a> {
    changes: Vec<PathChange>,
    reversals: BTreeMap<&'a Path, &'a Reversal>,
    refused: Vec<RestoredPath>,
}

impl UndoExecution<'_> {
    /// Tells what would become of each path.
    pub(super) fn foresee(&self, request: &UndoRequest) -> Result<Vec<RestoredPath>, UndoError> {
        let SortedReversals { changes, reversals, refused } = self.sort(request);
        let mut outcomes = refused;
        for undone in self.store.foresee(&changes)? {
            let reversal = reversals.get(undone.path.as_path()).copied();
            let is_forcible = self.is_forcible(&undone, reversal)?;
            let outcome = if self.force && is_forcible {
                PathOutcome::Restored { how: change_of(reversal), copy: None }
            } else {
                self.outcome(&undone, reversal, is_forcible)
            };
            outcomes.push(RestoredPath { path: undone.path, outcome });
        }
        Ok(tidy(outcomes))
    }

    /// Puts paths back. What was there before is captured first, so that it can be taken back. `announce` is told what is to
    /// become of the paths before the first of them is touched; if it fails, nothing is.
    pub(super) fn carry_out(
        &self,
        request: &UndoRequest,
        announce: &dyn Fn(&PreparedUndo) -> Result<(), UndoError>,
    ) -> Result<CompletedUndo, UndoError> {
        // Calls of other processes that look at the files meanwhile learn that others were at work.
        let _activity = self.store.begin()?;
        let SortedReversals { mut changes, reversals, refused } = self.sort(request);
        let all = Self::with_missing_folders(&changes);
        let before = self.store.capture_exactly(self.session, &all)?;
        let mut outcomes = refused;
        if request.action == UndoAction::Restore && !self.force {
            // What nobody knows is overwritten only if it can be brought back.
            outcomes.extend(self.not_kept(&before, &mut changes)?);
        }
        let mut reached: BTreeMap<PathBuf, RewindExtent> =
            outcomes.iter().map(|path| (path.path.clone(), RewindExtent::Left)).collect();
        let goal = if self.force { RewindExtent::First } else { RewindExtent::Joined };
        reached.extend(changes.iter().map(|change| (change.path.clone(), goal)));
        let is_announced = !changes.is_empty();
        if is_announced {
            let intent = self.store.record(self.session, &changes)?.0;
            announce(&PreparedUndo { before: before.clone(), intent, reached: reached.clone() })?;
        }
        let mut not_empty = BTreeSet::new();
        let mut copies = self.keep_doubtful(request, &changes, &reversals)?;
        for undone in self.store.undo(&changes)? {
            let reversal = reversals.get(undone.path.as_path()).copied();
            let is_put = matches!(undone.result, Ok(PutBack::Done | PutBack::Unchanged));
            let is_forcible = self.is_forcible(&undone, reversal)?;
            let mut outcome = match reversal {
                Some(reversal) if self.force && is_forcible => {
                    self.force(&reversal.change, &reversal.first)
                }
                _ => self.outcome(&undone, reversal, is_forcible),
            };
            if let PathOutcome::Restored { copy, .. } = &mut outcome {
                *copy = copy.take().or_else(|| copies.remove(&undone.path));
            }
            let is_not_empty = matches!(undone.result, Ok(PutBack::NotEmpty));
            if is_not_empty {
                not_empty.insert(undone.path.clone());
            }
            // A folder that was to go and holds what others made: nothing more can be done for it, even by force.
            let is_left = stays(&outcome) && (is_forcible || !is_not_empty);
            // Where somebody else's edit is in the way of the rest, what was joined is undone all the same.
            if is_left && !is_put {
                reached.insert(undone.path.clone(), RewindExtent::Left);
            }
            outcomes.push(RestoredPath { path: undone.path, outcome });
        }
        accept_folders_of_copies(&mut outcomes, not_empty);
        let after = self.store.capture_exactly(self.session, &all)?;
        Ok(CompletedUndo { paths: tidy(outcomes), reached, is_announced, before, after })
    }

    /// Returns the paths that change, with the folders on the way that will be made: taking it back removes them again.
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

    /// Parts what may be put back from what is refused because others may have made it.
    fn sort<'r>(&self, request: &'r UndoRequest) -> SortedReversals<'r> {
        let mut sorted = SortedReversals::default();
        for reversal in &request.reversals {
            if request.action == UndoAction::Undo && reversal.is_nothing() {
                // What was changed and changed back is as it was.
                continue;
            }
            let mut change = reversal.change.clone();
            if self.force {
                change.before = reversal.first.clone();
            }
            let without_help = self
                .of_gone_root(&change.path)
                .or_else(|| reversal.later.map(|author| self.later_reason(author)));
            let refusal = without_help.map(|reason| (reason, false)).or_else(|| {
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

    fn of_gone_root(&self, path: &Path) -> Option<String> {
        let root = self.gone.iter().find(|root| path.starts_with(root))?;
        Some(format!("{} is gone: was it moved?", root.display()))
    }

    fn later_reason(&self, author: StepAuthor) -> String {
        format!("{} changed it since: undo that first", self.name(author))
    }

    fn name(&self, author: StepAuthor) -> String {
        match author {
            StepAuthor::Call(call) => {
                self.calls.get(call).map_or_else(|| "a call".to_owned(), words)
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

    /// Takes out what is there now and could not be captured.
    fn not_kept(
        &self,
        before: &SnapshotId,
        changes: &mut Vec<PathChange>,
    ) -> Result<Vec<RestoredPath>, UndoError> {
        let mut lost = BTreeMap::new();
        for change in changes.iter() {
            if let Some(SnapshotEntry::File {
                content: ContentRef::NotStored { why, .. }, ..
            }) = self.store.entry(before, &change.path)?
            {
                lost.insert(change.path.clone(), why);
            }
        }
        changes.retain(|change| !lost.contains_key(&change.path));
        let refused = |(path, why)| RestoredPath {
            path,
            outcome: PathOutcome::Conflict { reason: not_kept_reason(why), forcible: true },
        };
        Ok(lost.into_iter().map(refused).collect())
    }

    /// Keeps copies of what force overwrites and somebody else may have made.
    fn keep_doubtful(
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
            if !is_doubtful || !self.store.is_reached(&change.path)? {
                continue;
            }
            if self.store.look_at(&change.path, &change.before)? != change.before
                && let Some(copy) = self.store.keep_copy(&change.path)?
            {
                copies.insert(change.path.clone(), copy);
            }
        }
        Ok(copies)
    }

    /// Tells whether force helps: what lies behind a link stays, and so does a folder that was to go and holds what others
    /// made. One that is in the place of a file is moved aside with what it holds.
    fn is_forcible(
        &self,
        undone: &RestoreOutcome,
        reversal: Option<&Reversal>,
    ) -> Result<bool, UndoError> {
        let Some(reversal) = reversal else { return Ok(false) };
        let is_in_the_way = match &undone.result {
            Ok(PutBack::Conflict { .. }) => true,
            Ok(PutBack::NotEmpty) => reversal.first != SnapshotEntry::Absent,
            Ok(PutBack::Done | PutBack::Unchanged | PutBack::NotCovered { .. }) | Err(_) => false,
        };
        Ok(is_in_the_way && self.store.is_reached(&undone.path)?)
    }

    fn shared_reason(&self, call: usize) -> String {
        match self.calls.get(call) {
            Some(call) if call.cut_off => format!(
                "{} was cut off, so nobody knows whether it or somebody else changed this",
                words(call)
            ),
            Some(call) => {
                format!("others were at work while {} ran and may have changed it", words(call))
            }
            None => "others may have changed it".to_owned(),
        }
    }

    fn outcome(
        &self,
        undone: &RestoreOutcome,
        reversal: Option<&Reversal>,
        is_forcible: bool,
    ) -> PathOutcome {
        let conflict = |reason: String, helps: bool| PathOutcome::Conflict {
            reason,
            forcible: helps && !self.force,
        };
        match &undone.result {
            Ok(PutBack::Done | PutBack::Unchanged)
                if let Some(author) = reversal.and_then(|reversal| reversal.broken_after)
                    && !self.force =>
            {
                let by = self.name(author);
                let reason = format!(
                    "somebody changed it after {by}: it is as they left it, and what {by} did stays"
                );
                conflict(reason, true)
            }
            Ok(PutBack::Done) => PathOutcome::Restored { how: change_of(reversal), copy: None },
            Ok(PutBack::Unchanged) => PathOutcome::Unchanged,
            Ok(PutBack::Conflict { found }) => {
                let expected = reversal.map(|reversal| &reversal.change.after);
                conflict(conflict_reason(found, expected), is_forcible)
            }
            Ok(PutBack::NotEmpty) => {
                conflict("something else is in the folder".to_owned(), is_forcible)
            }
            Ok(PutBack::NotCovered { why }) => {
                PathOutcome::NotRestorable { reason: why.to_string() }
            }
            Err(error) => PathOutcome::Failed { error: error.to_string() },
        }
    }

    /// Puts a path back although it is not what it should be, and keeps a copy of what it is.
    fn force(&self, change: &PathChange, wanted: &SnapshotEntry) -> PathOutcome {
        let path = &change.path;
        let forced = || -> Result<PathOutcome, SnapshotStoreError> {
            let mut copy = self.store.keep_copy(path)?;
            let found = self.store.look_at(path, &change.after)?;
            let mut put = self.store.put_back(path, &found, wanted);
            // A folder cannot be replaced in one step while something is in it: it is moved aside as a whole.
            if matches!(put, Ok(PutBack::NotEmpty)) {
                copy = self.store.move_aside(path)?;
                put = match self.store.put_back(path, &SnapshotEntry::Absent, wanted) {
                    // Nothing was to be there.
                    Ok(PutBack::Unchanged) => Ok(PutBack::Done),
                    put => put,
                };
            }
            let how = change_between(&found, wanted);
            let undone = RestoreOutcome { path: path.clone(), result: put };
            Ok(match (self.outcome(&undone, None, false), copy) {
                (PathOutcome::Restored { .. }, copy) => PathOutcome::Restored { how, copy },
                (PathOutcome::Failed { error }, Some(copy)) => {
                    let error = format!("{error}; what was there is in {}", copy.display());
                    PathOutcome::Failed { error }
                }
                (outcome, _) => outcome,
            })
        };
        forced().unwrap_or_else(|error| PathOutcome::Failed { error: error.to_string() })
    }
}

/// Counts folders as done that stay only for the copies that were kept in them: nothing of a call is left there.
fn accept_folders_of_copies(outcomes: &mut [RestoredPath], not_empty: BTreeSet<PathBuf>) {
    let mut own: BTreeSet<PathBuf> =
        outcomes.iter().filter_map(RestoredPath::copy).cloned().collect();
    // What is in a folder comes behind it.
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

/// Tells whether something is left to do for a path.
fn stays(outcome: &PathOutcome) -> bool {
    matches!(outcome, PathOutcome::Conflict { .. } | PathOutcome::Failed { .. })
}

fn not_kept_reason(why: WhyNotCovered) -> String {
    format!("what is there now cannot be kept ({why}), so it stays")
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
        (SnapshotEntry::Folder { .. }, _) => "a folder is there since",
        (SnapshotEntry::Link { .. }, _) => "a link is there since",
        _ => "it was changed since",
    }
    .to_owned()
}

/// Names a call.
fn words(call: &ChangedCall) -> String {
    format!("{} `{}`", call.tool, call.title)
}

/// Sorts paths and leaves out folders that something in them stands for.
fn tidy(mut paths: Vec<RestoredPath>) -> Vec<RestoredPath> {
    paths.sort_by(|a, b| a.path.cmp(&b.path));
    paths.dedup_by(|a, b| a.path == b.path);
    let keep: Vec<bool> = paths
        .iter()
        .enumerate()
        .map(|(at, path)| {
            let inner = paths.get(at + 1).is_some_and(|next| next.path.starts_with(&path.path));
            // Where a copy is kept has to be told.
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
