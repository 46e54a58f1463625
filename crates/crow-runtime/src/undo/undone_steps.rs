//! Determines which changes are undone at present, by replaying the undo and redo records.
//!
//! Being undone is a property of each path and not of a call: an undo that meets a file edited by
//! another writer leaves that file and undoes the rest of the call. A record names its calls and by default applies to
//! all their changes; where it does not, an exception for the path says what was undone there.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    path::{Path, PathBuf},
};

use crow_core::ids::UndoId;

use super::{CallKey, PathException, UndoAction, UndoRecord};

/// The author of a change: a call, or the user through a restore.
#[derive(Debug, Clone, Copy)]
pub(super) enum Author<'a> {
    Call(&'a CallKey),
    Restore(&'a UndoId),
}

/// The effects of all records, in order.
#[derive(Debug, Default)]
pub(super) struct UndoneSteps {
    effects: Vec<RecordEffect>,
}

#[derive(Debug)]
struct RecordEffect {
    kind: EffectKind,
    everywhere: Authors,
    exceptions: HashMap<PathBuf, Authors>,
}

#[derive(Debug)]
enum EffectKind {
    Undo,
    /// Reverts the undo with this index, except at the paths in `left`.
    Redo {
        undo: Option<usize>,
        left: BTreeSet<PathBuf>,
    },
    Restore,
}

#[derive(Debug, Default)]
struct Authors {
    calls: HashSet<CallKey>,
    restores: HashSet<UndoId>,
}

impl Authors {
    fn contain(&self, author: Author<'_>) -> bool {
        match author {
            Author::Call(key) => self.calls.contains(key),
            Author::Restore(id) => self.restores.contains(id),
        }
    }
}

impl RecordEffect {
    /// Returns false if the record only rewinds the conversation.
    fn concerns_files(&self) -> bool {
        let is_any = |authors: &Authors| !authors.calls.is_empty() || !authors.restores.is_empty();
        is_any(&self.everywhere) || self.exceptions.values().any(is_any)
    }
}

impl UndoneSteps {
    pub(super) fn new(records: &[UndoRecord]) -> Self {
        let index_of = |id: &UndoId| records.iter().position(|record| record.id == *id);
        let effect = |record: &UndoRecord| {
            let reversed = record.reverses.as_ref().and_then(index_of);
            let kind = match record.action {
                UndoAction::Undo => EffectKind::Undo,
                UndoAction::Redo => {
                    EffectKind::Redo { undo: reversed, left: record.left.iter().cloned().collect() }
                }
                UndoAction::Restore => EffectKind::Restore,
            };
            let exception = |exception: &PathException| {
                let calls = exception.calls.iter().cloned().collect();
                let restores = exception.restores.iter().cloned().collect();
                (exception.path.clone(), Authors { calls, restores })
            };
            RecordEffect {
                kind,
                everywhere: Authors {
                    calls: record.calls.iter().cloned().collect(),
                    restores: record.reverses.iter().cloned().collect(),
                },
                exceptions: record.exceptions.iter().map(exception).collect(),
            }
        };
        Self { effects: records.iter().map(effect).collect() }
    }

    /// Returns true if the changes of an author at a path are undone.
    pub(super) fn is_undone(&self, author: Author<'_>, path: &Path) -> bool {
        let mut undone_by = None;
        for (at, effect) in self.effects.iter().enumerate() {
            let authors = effect.exceptions.get(path).unwrap_or(&effect.everywhere);
            match &effect.kind {
                EffectKind::Undo if undone_by.is_none() && authors.contain(author) => {
                    undone_by = Some(at);
                }
                EffectKind::Redo { undo: Some(undo), left } if undone_by == Some(*undo) => {
                    if !left.contains(path) {
                        undone_by = None;
                    }
                }
                // A partial redo of an older version names the calls that it redid completely.
                EffectKind::Redo { undo: None, .. } if authors.contain(author) => undone_by = None,
                EffectKind::Undo | EffectKind::Redo { .. } | EffectKind::Restore => {}
            }
        }
        undone_by.is_some()
    }

    /// Returns true if any record mentions the author.
    pub(super) fn is_mentioned(&self, author: Author<'_>) -> bool {
        self.effects.iter().any(|effect| {
            effect.everywhere.contain(author)
                || effect.exceptions.values().any(|authors| authors.contain(author))
        })
    }

    /// Returns the index of the undo that a redo reverts: the last one that is still in effect for some path.
    pub(super) fn last_undo(&self) -> Option<usize> {
        self.effects.iter().enumerate().rev().find_map(|(at, effect)| {
            let is_open = matches!(effect.kind, EffectKind::Undo)
                && effect.concerns_files()
                && self.left_by_redo(at).is_none_or(|left| !left.is_empty());
            is_open.then_some(at)
        })
    }

    /// Returns the paths at which an undo remains in effect although it was redone, or `None` if it was never redone.
    pub(super) fn left_by_redo(&self, undo: usize) -> Option<&BTreeSet<PathBuf>> {
        self.effects.iter().rev().find_map(|effect| match &effect.kind {
            EffectKind::Redo { undo: Some(at), left } if *at == undo => Some(left),
            EffectKind::Redo { .. } | EffectKind::Undo | EffectKind::Restore => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use crow_core::ids::{CallId, SnapshotId};
    use jiff::Timestamp;

    use super::*;

    fn key(seq: u64) -> CallKey {
        CallKey { seq, call_id: CallId::new(format!("c{seq}")) }
    }

    fn record(id: &str, action: UndoAction, calls: &[u64]) -> UndoRecord {
        UndoRecord {
            id: UndoId::new(id),
            time: Timestamp::UNIX_EPOCH,
            action,
            calls: calls.iter().map(|seq| key(*seq)).collect(),
            exceptions: Vec::new(),
            left: Vec::new(),
            copies: Vec::new(),
            intent: None,
            continues: None,
            reverses: None,
            before: SnapshotId::new("b"),
            after: SnapshotId::new("a"),
            notice: None,
            stays: None,
            last_kept: None,
            last_seen: None,
        }
    }

    fn except(path: &str, calls: &[u64]) -> PathException {
        let calls = calls.iter().map(|seq| key(*seq)).collect();
        PathException { path: path.into(), calls, restores: Vec::new() }
    }

    fn redo_of(undo: &str, left: &[&str]) -> UndoRecord {
        UndoRecord {
            reverses: Some(UndoId::new(undo)),
            left: left.iter().map(PathBuf::from).collect(),
            ..record("redo", UndoAction::Redo, &[])
        }
    }

    #[test]
    fn a_change_can_be_undone_at_some_paths_only() {
        let undo = |exceptions| UndoRecord { exceptions, ..record("u", UndoAction::Undo, &[1, 2]) };
        let is_undone = |records: &[UndoRecord], seq: u64, path: &str| {
            UndoneSteps::new(records).is_undone(Author::Call(&key(seq)), Path::new(path))
        };
        let records = [undo(vec![except("left", &[]), except("part", &[2, 3])])];
        let table = [(1, "all"), (2, "all"), (2, "part"), (3, "part")];
        for seq in 1..=3 {
            for path in ["all", "left", "part"] {
                let expected = table.contains(&(seq, path));
                assert_eq!(is_undone(&records, seq, path), expected, "{seq} {path}");
            }
        }
    }

    #[test]
    fn a_redo_reverts_only_its_own_undo() {
        let other = UndoRecord {
            exceptions: vec![except("a", &[1])],
            ..record("first", UndoAction::Undo, &[])
        };
        let undo = record("second", UndoAction::Undo, &[1, 2]);
        let redo = redo_of("second", &["b"]);
        let steps = UndoneSteps::new(&[other, undo, redo]);
        let is_undone = |seq, path| steps.is_undone(Author::Call(&key(seq)), Path::new(path));
        assert!(is_undone(1, "a"), "the first undo had undone it");
        assert!(!is_undone(2, "a") && !is_undone(1, "c"));
        assert!(is_undone(2, "b"), "the redo left it");
        assert_eq!(steps.last_undo(), Some(1), "something of it is left to redo");
    }

    #[test]
    fn a_fully_redone_undo_is_no_longer_the_last_one() {
        let first = record("first", UndoAction::Undo, &[2]);
        let second = record("second", UndoAction::Undo, &[1]);
        let records = [first, second, redo_of("second", &[])];
        assert_eq!(UndoneSteps::new(&records).last_undo(), Some(0));
    }

    #[test]
    fn a_rewind_of_the_conversation_alone_is_nothing_to_redo() {
        let first = record("first", UndoAction::Undo, &[1]);
        let rewind = UndoRecord { last_kept: Some(3), ..record("rewind", UndoAction::Undo, &[]) };
        assert_eq!(UndoneSteps::new(&[first, rewind]).last_undo(), Some(0));
    }

    #[test]
    fn a_restore_is_undone_by_a_record_that_names_it() {
        let restore = record("r", UndoAction::Restore, &[]);
        let undo =
            UndoRecord { reverses: Some(UndoId::new("r")), ..record("u", UndoAction::Undo, &[]) };
        let redo = redo_of("u", &[]);
        let id = UndoId::new("r");
        let is_undone = |records: &[UndoRecord]| {
            UndoneSteps::new(records).is_undone(Author::Restore(&id), Path::new("p"))
        };
        assert!(is_undone(&[restore.clone(), undo.clone()]));
        assert!(!is_undone(&[restore, undo, redo]));
    }
}
