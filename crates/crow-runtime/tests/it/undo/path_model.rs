//! Model of the content of each path after a sequence of calls, edits, undos, redos and restores.
//!
//! The model keeps a list of changes for each path, each with the record that undid it, and follows the rules as users know
//! them: an undo goes back as far as the changes connect and keeps edits of others in between; force goes to the state
//! before the first change; a redo is the exact inverse of its undo.

use std::collections::{BTreeMap, BTreeSet};

/// Files that the model covers.
pub(super) const NAMES: [&str; 3] = ["a", "b", "d/x"];

/// Content of a file, `None` if it does not exist.
pub(super) type Content = Option<String>;

/// Target of an undo; turns and calls are counted back from the last one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Aim {
    Last,
    Call(usize),
    Turn(u32),
    BackTo(u32),
    ToStart,
}

/// Author of a change: an index into the calls or into the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Author {
    Call(usize),
    Restore(usize),
}

#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) author: Author,
    before: Content,
    after: Content,
    /// Index of the undo record.
    undone_by: Option<usize>,
}

#[derive(Debug)]
pub(super) enum Record {
    Undo {
        /// Calls that the undo targeted.
        calls: Vec<usize>,
        /// Content of each changed path before and after the undo.
        changed: BTreeMap<usize, (Content, Content)>,
        /// Paths that redos have left so far, `None` before the first redo.
        rest: Option<BTreeSet<usize>>,
    },
    Redo {
        undo: usize,
    },
    Restore,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) files: [Content; NAMES.len()],
    pub(super) changes: [Vec<Change>; NAMES.len()],
    /// Turn and id of each call that changed something.
    pub(super) calls: Vec<(u32, String)>,
    /// The records, each with the number of calls before it.
    pub(super) records: Vec<(Record, usize)>,
    pub(super) turns: u32,
    /// Number of contents created so far, which makes each one unique.
    contents: usize,
}

impl Model {
    pub(super) fn new_content(&mut self) -> String {
        self.contents += 1;
        format!("{}\n", self.contents)
    }

    pub(super) fn change(&mut self, path: usize, author: Author, after: Content) {
        let before = std::mem::replace(&mut self.files[path], after.clone());
        if before != after {
            self.changes[path].push(Change { author, before, after, undone_by: None });
        }
    }

    fn is_open(&self, author: Author) -> bool {
        let mut all = self.changes.iter().flatten();
        all.any(|change| change.author == author && change.undone_by.is_none())
    }

    fn open_calls(&self, fits: impl Fn(usize) -> bool) -> Vec<usize> {
        (0..self.calls.len()).filter(|at| fits(*at) && self.is_open(Author::Call(*at))).collect()
    }

    /// Returns the authors whose changes an undo targets, or `None` if there is nothing to undo.
    fn targeted(&self, aim: Aim, force: bool) -> Option<Vec<Author>> {
        let calls = match aim {
            Aim::Last => {
                // 1) The user's last operation.
                if let Some(again) = self.last_operation(force) {
                    return Some(again);
                }
                // 2) The last turn with changes that are not undone.
                let last = *self.open_calls(|_| true).last()?;
                self.open_calls(|at| self.calls[at].0 == self.calls[last].0)
            }
            Aim::Call(back) => self.open_calls(|at| Some(at) == self.call(back)),
            Aim::Turn(back) => self.open_calls(|at| Some(self.calls[at].0) == self.turn(back)),
            Aim::BackTo(back) => {
                self.open_calls(|at| self.turn(back).is_some_and(|turn| self.calls[at].0 >= turn))
            }
            Aim::ToStart => self.open_calls(|_| true),
        };
        Some(calls.into_iter().map(Author::Call).collect())
            .filter(|calls: &Vec<_>| !calls.is_empty())
    }

    /// Returns the authors that an undo without a target takes back first: a restore after the last call, or the calls
    /// of the last record again: after a redo, or by force after an incomplete undo.
    fn last_operation(&self, force: bool) -> Option<Vec<Author>> {
        if let Some(restore) = self.last_restore() {
            return Some(vec![Author::Restore(restore)]);
        }
        let (record, calls) = self.records.last()?;
        let again = match record {
            Record::Redo { undo } => match &self.records[*undo].0 {
                Record::Undo { calls, .. } => Some(calls),
                Record::Redo { .. } | Record::Restore => unreachable!("only undos are redone"),
            },
            Record::Undo { calls, .. } if force => Some(calls),
            Record::Undo { .. } | Record::Restore => None,
        };
        let again = again.filter(|_| *calls == self.calls.len())?;
        let again = self.open_calls(|at| again.contains(&at));
        Some(again.into_iter().map(Author::Call).collect()).filter(|all: &Vec<_>| !all.is_empty())
    }

    /// Returns the authors whose changes of one path an undo targets, or `None` if there is nothing to undo at it.
    fn targeted_at(&self, aim: Aim, force: bool, path: usize) -> Option<Vec<Author>> {
        let open: BTreeSet<Author> = self.changes[path]
            .iter()
            .filter(|change| change.undone_by.is_none())
            .map(|change| change.author)
            .collect();
        let at_path = |authors: Vec<Author>| {
            let authors: Vec<_> =
                authors.into_iter().filter(|author| open.contains(author)).collect();
            Some(authors).filter(|authors| !authors.is_empty())
        };
        let Aim::Last = aim else { return self.targeted(aim, force).and_then(at_path) };
        self.last_operation(force).and_then(at_path).or_else(|| {
            let turn = |author: &Author| match author {
                Author::Call(at) => Some(self.calls[*at].0),
                Author::Restore(_) => None,
            };
            let last = open.iter().filter_map(turn).max()?;
            Some(open.iter().copied().filter(|author| turn(author) == Some(last)).collect())
        })
    }

    fn last_restore(&self) -> Option<usize> {
        let last_call = self.open_calls(|_| true).last().copied();
        for (at, (record, calls)) in self.records.iter().enumerate().rev() {
            if matches!(record, Record::Restore) {
                if last_call.is_some_and(|call| call >= *calls) {
                    return None;
                }
                if self.is_open(Author::Restore(at)) {
                    return Some(at);
                }
            }
        }
        None
    }

    pub(super) fn call(&self, back: usize) -> Option<usize> {
        self.calls.len().checked_sub(back + 1)
    }

    pub(super) fn turn(&self, back: u32) -> Option<u32> {
        self.turns.checked_sub(back).filter(|turn| *turn > 0)
    }

    /// Undoes, and returns true if there was something to undo. If the undo is killed, the user overwrites the paths of
    /// `spared`.
    pub(super) fn undo(&mut self, aim: Aim, force: bool, spared: &BTreeSet<usize>) -> bool {
        let Some(targets) = self.targeted(aim, force) else { return false };
        self.undo_changes(&targets, 0..NAMES.len(), force, spared);
        true
    }

    /// Undoes changes of one path, and returns true if there was something to undo.
    pub(super) fn undo_at(&mut self, aim: Aim, force: bool, path: usize) -> bool {
        let Some(targets) = self.targeted_at(aim, force, path) else { return false };
        self.undo_changes(&targets, path..path + 1, force, &BTreeSet::new());
        true
    }

    fn undo_changes(
        &mut self,
        targets: &[Author],
        paths: std::ops::Range<usize>,
        force: bool,
        spared: &BTreeSet<usize>,
    ) {
        let record = self.records.len();
        let mut changed = BTreeMap::new();
        let mut did_something = false;
        let undos: Vec<_> =
            paths.map(|path| (path, self.path_undo(path, targets, force))).collect();
        // An undo that was killed before it restored anything did nothing.
        let mut goals = undos
            .iter()
            .filter(|(_, step)| step.as_ref().is_some_and(|step| step.0.is_some()))
            .peekable();
        let is_void = !spared.is_empty()
            && goals.peek().is_some()
            && goals.all(|(path, _)| spared.contains(path));
        for (path, step) in undos.into_iter().filter(|_| !is_void) {
            let Some((goal, from, to_end)) = step else { continue };
            if spared.contains(&path) && goal.is_some() {
                continue;
            }
            // Without force, a path is only changed if it has the expected content.
            if let Some((goal, expected)) = goal {
                let found = self.files[path].clone();
                if found != goal {
                    if found != expected && !force {
                        continue;
                    }
                    changed.insert(path, (found, goal.clone()));
                    self.files[path] = goal;
                }
            }
            // The changes of the path are marked as undone, even if the content was already the goal.
            did_something = true;
            for (at, change) in self.changes[path].iter_mut().enumerate() {
                let is_selected = at >= from && (to_end || targets.contains(&change.author));
                if is_selected && change.undone_by.is_none() {
                    change.undone_by = Some(record);
                }
            }
        }
        if did_something {
            let call = |author: &Author| match author {
                Author::Call(at) => Some(*at),
                Author::Restore(_) => None,
            };
            let calls = targets.iter().filter_map(call).collect();
            self.records.push((Record::Undo { calls, changed, rest: None }, self.calls.len()));
        }
    }

    /// Returns how to undo a path: its new and its expected content (`None` if it stays), the index of the first change
    /// that is undone, and true if all later ones are undone too. Returns `None` if the path has no targeted change.
    #[expect(clippy::type_complexity, reason = "said once")]
    fn path_undo(
        &self,
        path: usize,
        targets: &[Author],
        force: bool,
    ) -> Option<(Option<(Content, Content)>, usize, bool)> {
        let open: Vec<usize> = (0..self.changes[path].len())
            .filter(|at| self.changes[path][*at].undone_by.is_none())
            .collect();
        let change = |at: usize| &self.changes[path][at];
        let selected: Vec<usize> =
            open.iter().copied().filter(|at| targets.contains(&change(*at).author)).collect();
        let (first, last) = (*selected.first()?, *selected.last()?);
        // Goes back from the last selected change while each earlier one connects to it: its result is the current goal,
        // directly or through restores in between.
        let (mut goal, mut from, mut is_broken) = (change(last).before.clone(), last, false);
        for earlier in selected.iter().rev().skip(1) {
            let between: Vec<usize> =
                open.iter().copied().filter(|at| at > earlier && *at < from).collect();
            let mut reached = change(*earlier).after.clone();
            if reached != goal {
                for at in between {
                    let is_restore = matches!(change(at).author, Author::Restore(_));
                    if is_restore && change(at).before == reached {
                        reached.clone_from(&change(at).after);
                    } else {
                        reached = Some("no way".to_owned());
                    }
                }
            }
            if reached != goal {
                is_broken = true;
                break;
            }
            goal.clone_from(&change(*earlier).before);
            from = *earlier;
        }
        let expected = change(last).after.clone();
        if goal == expected && !is_broken {
            return Some((None, first, false));
        }
        if force {
            return Some((Some((change(first).before.clone(), expected)), first, true));
        }
        Some((Some((goal, expected)), from, true))
    }

    pub(super) fn redo(&mut self, force: bool) -> bool {
        let is_left = |record: &Record| match record {
            Record::Undo { rest, .. } => rest.as_ref().is_none_or(|rest| !rest.is_empty()),
            Record::Redo { .. } | Record::Restore => false,
        };
        let Some(undo) = self.records.iter().rposition(|(record, _)| is_left(record)) else {
            return false;
        };
        // A path is left if a later change of it is not undone, or, without force, if its content is neither that before nor
        // that after the undo.
        let Record::Undo { changed, rest, .. } = &self.records[undo].0 else { unreachable!() };
        let (changed, rest) = (changed.clone(), rest.clone());
        let calls_then = self.records[undo].1;
        let is_selected = |path: &usize| rest.as_ref().is_none_or(|rest| rest.contains(path));
        let is_later = |change: &&Change| match change.author {
            _ if change.undone_by.is_some() => false,
            Author::Call(at) => at >= calls_then,
            Author::Restore(at) => at > undo,
        };
        let is_left = |(path, (before, after)): &(&usize, &(Content, Content))| {
            let found = &self.files[**path];
            self.changes[**path].iter().any(|change| is_later(&change))
                || found != before && found != after && !force
        };
        let selected: Vec<_> = changed.iter().filter(|(path, _)| is_selected(path)).collect();
        let still_left: BTreeSet<usize> =
            selected.iter().filter(|change| is_left(change)).map(|(path, _)| **path).collect();
        if !selected.is_empty() && still_left.len() == selected.len() {
            // Nothing was redone, so there is no record.
            return true;
        }
        for path in (0..NAMES.len()).filter(|path| is_selected(path) && !still_left.contains(path))
        {
            if let Some((before, _)) = changed.get(&path) {
                self.files[path].clone_from(before);
            }
            for change in &mut self.changes[path] {
                change.undone_by = change.undone_by.filter(|by| *by != undo);
            }
        }
        let Record::Undo { rest, .. } = &mut self.records[undo].0 else { unreachable!() };
        *rest = Some(still_left);
        self.records.push((Record::Redo { undo }, self.calls.len()));
        true
    }

    pub(super) fn restore(&mut self, path: usize, turn: u32) {
        let is_before = |change: &&Change| match change.author {
            Author::Call(at) => self.calls[at].0 < turn,
            Author::Restore(_) => false,
        };
        let by_call = |change: &&Change| matches!(change.author, Author::Call(_));
        let changes = &self.changes[path];
        let state = changes.iter().rev().find(is_before).map(|change| change.after.clone());
        let first = || changes.iter().find(by_call).map(|change| change.before.clone());
        let Some(wanted) = state.or_else(first) else { return };
        if self.files[path] != wanted {
            let record = self.records.len();
            self.records.push((Record::Restore, self.calls.len()));
            self.change(path, Author::Restore(record), wanted);
        }
    }
}
