//! What differs between two inventories, and what is to be done about it.
//!
//! A difference is left alone if it starts nothing (an empty directory, a repository as `git init` makes it), or if the
//! command cannot have made it because the kernel kept it from that very file. All others are undone: what was there is put
//! back, what was not is moved aside. Settings that only gained programs lose these, and keep what else they gained. Of a list of a rebase only the lines that start programs are taken out: what was
//! there before would have git do again what it has done.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crow_fs::change_time::nanoseconds;

use super::{
    entry_state::{EntryState, FileContent, is_absence},
    git_config, git_todo,
    inventory::{Inventory, InventoryEntry, InventoryRole, SealedPaths},
};

/// What is to be done about a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RepairAction {
    /// Something new starts programs: it is moved aside.
    MoveAside(PathBuf),
    /// Something was changed or removed: it becomes again what it was.
    PutBack(PathBuf),
    /// Something was changed so that it names programs: it keeps the rest.
    Disarm { path: PathBuf, rest: EntryState },
}

/// Which differences commands may have made.
pub(super) enum AttributableChanges<'a> {
    /// All but those of files that the kernel seals.
    NotSealed(&'a dyn SealedPaths),
    /// Those of files that did not change after this moment, in nanoseconds since 1970.
    ChangedUntil(i64),
}

impl AttributableChanges<'_> {
    fn may_have_changed(&self, path: &Path) -> bool {
        match self {
            Self::NotSealed(sealed) => !sealed.is_kept(path),
            // What is gone starts nothing.
            Self::ChangedUntil(until) => {
                crow_fs::metadata(path).is_ok_and(|found| nanoseconds(found.changed) <= *until)
            }
        }
    }
}

/// Whether rebases that began since may have commands in their lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rebases {
    /// A command may be in the middle of one, and what it runs stands in the list.
    MayRun,
    /// What is in a list now is for later.
    HaveEnded,
}

impl Rebases {
    pub(super) fn of(may_run: bool) -> Self {
        if may_run { Self::MayRun } else { Self::HaveEnded }
    }
}

/// By what differences are judged.
pub(super) struct Judge<'a> {
    pub blame: AttributableChanges<'a>,
    pub rebases: Rebases,
}

/// What comes of a look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Judgement {
    /// What is to be done, by path.
    pub repairs: Vec<RepairAction>,
    /// What is new, and judged when no command runs any more.
    pub undecided: BTreeSet<PathBuf>,
}

impl Judge<'_> {
    /// Returns what is to be done.
    pub(super) fn judge(&self, before: &Inventory, now: &Inventory) -> Judgement {
        let mut repairs = BTreeMap::new();
        let mut undecided = BTreeSet::new();
        for (path, entry) in &before.entries {
            let Some(state) = state_now(path, entry, now) else { continue };
            if entry.state == state || is_repository_gone(entry, path, now) {
                continue;
            }
            let may_have_changed = self.blame.may_have_changed(path);
            if may_have_changed && !is_harmless_change(path, entry, &state) {
                let repair = disarmed(path, entry, &state);
                repairs.insert(path.clone(), repair.unwrap_or(RepairAction::PutBack(path.clone())));
            }
        }
        for (path, entry) in &now.entries {
            let is_new = !before.entries.contains_key(path);
            if !is_new
                || is_harmless(path, entry, &entry.state)
                || is_in_unsealed_directory(path, before)
                || !self.blame.may_have_changed(path)
            {
                continue;
            }
            let nothing = InventoryEntry { state: EntryState::Absent, ..entry.clone() };
            match disarmed(path, &nothing, &entry.state) {
                Some(_) if self.rebases == Rebases::MayRun => {
                    undecided.insert(path.clone());
                }
                Some(disarm) => {
                    repairs.insert(path.clone(), disarm);
                }
                None => {
                    let outermost = outermost_new(path, entry, before, now);
                    repairs.insert(outermost.clone(), RepairAction::MoveAside(outermost));
                }
            }
        }
        // What is moved aside goes before what may be in it.
        let mut repairs: Vec<RepairAction> = repairs.into_values().collect();
        repairs.sort_by_key(|repair| !matches!(repair, RepairAction::MoveAside(_)));
        Judgement { repairs, undecided }
    }
}

/// Returns how a file loses the programs that it did not name before, if it is of use without them.
fn disarmed(path: &Path, before: &InventoryEntry, now: &EntryState) -> Option<RepairAction> {
    let (EntryState::File { mode, .. }, Some(bytes)) = (now, now.bytes()) else { return None };
    let known = programs_in(path, before.role, &before.state);
    let rest = match (before.role, &before.state) {
        // What settings lost as well is worth more than what they gained.
        (InventoryRole::GitSettings, EntryState::File { .. }) => {
            let (now, was) = (text_of(now)?, text_of(&before.state)?);
            let (now_set, was_set) = (git_config::parse(&now).ok()?, git_config::parse(&was).ok()?);
            if was_set.iter().any(|setting| !now_set.contains(setting)) {
                return None;
            }
            let is_new_program = |setting: &git_config::GitSetting| {
                !setting.is_harmless() && !was_set.contains(setting)
            };
            git_config::without(&now, is_new_program).ok()?.into_bytes()
        }
        (InventoryRole::GitTodo, _) if git_todo::is_list(path) => {
            git_todo::without_new_programs(bytes, &known)
        }
        _ => return None,
    };
    let rest = EntryState::File { mode: *mode, content: FileContent::Whole(rest.into()) };
    let is_disarmed = programs_in(path, before.role, &rest).is_subset(&known);
    is_disarmed.then(|| RepairAction::Disarm { path: path.to_owned(), rest })
}

/// Returns what is at a path of an earlier inventory. Nothing comes back if nobody comes there any more: then the way there
/// differs, and is an entry of its own.
fn state_now(path: &Path, entry: &InventoryEntry, now: &Inventory) -> Option<EntryState> {
    if let Some(entry) = now.entries.get(path) {
        return Some(entry.state.clone());
    }
    let is_entered =
        entry.entrance.as_ref().is_none_or(|entrance| now.entries.contains_key(entrance));
    let is_there = crow_fs::metadata(path).map_or_else(|error| !is_absence(&error), |_| true);
    (is_entered && !is_there).then_some(EntryState::Absent)
}

/// A command may remove a repository: then there is nothing that could start.
fn is_repository_gone(entry: &InventoryEntry, path: &Path, now: &Inventory) -> bool {
    let is_absent =
        |path: &Path| now.entries.get(path).is_none_or(|entry| entry.state == EntryState::Absent);
    match &entry.entrance {
        Some(entrance) if entrance == path => {
            entry.role == InventoryRole::GitEntrance && is_absent(path)
        }
        Some(entrance) => is_absent(entrance),
        None => false,
    }
}

fn is_harmless_change(path: &Path, before: &InventoryEntry, now: &EntryState) -> bool {
    match (before.role, now) {
        (InventoryRole::GitSettings | InventoryRole::GitTodo, EntryState::File { .. }) => {
            let known = programs_in(path, before.role, &before.state);
            programs_in(path, before.role, now).is_subset(&known)
        }
        (InventoryRole::GitTodo, now) => is_harmless(path, before, now),
        _ => before.state == EntryState::Absent && is_harmless(path, before, now),
    }
}

/// Returns whether something that was not there before starts nothing.
fn is_harmless(path: &Path, entry: &InventoryEntry, state: &EntryState) -> bool {
    let is_empty = || state.bytes().is_some_and(<[u8]>::is_empty);
    match (entry.role, state) {
        // What is there is known only by its name.
        (_, EntryState::Special | EntryState::Unreadable | EntryState::Symlink { .. })
        | (InventoryRole::BareRepository, EntryState::File { .. } | EntryState::Directory { .. }) => {
            false
        }
        // Where it leads is an entry of its own, if commands can change it.
        (InventoryRole::GitRedirect | InventoryRole::GitEntrance, EntryState::File { .. }) => {
            !entry.leads_outside
        }
        (InventoryRole::GitSettings | InventoryRole::GitTodo, EntryState::File { .. }) => {
            programs_in(path, entry.role, state).is_empty()
        }
        (InventoryRole::Settings | InventoryRole::GitHook, EntryState::File { .. }) => is_empty(),
        (_, EntryState::Directory { .. }) if entry.is_cut => false,
        // What is in it cannot be looked at.
        (_, EntryState::Directory { mode }) if mode & 0o500 != 0o500 => false,
        // What is in it are entries of their own.
        (
            InventoryRole::Settings
            | InventoryRole::GitHook
            | InventoryRole::GitRedirect
            | InventoryRole::GitEntrance
            | InventoryRole::GitSettings
            | InventoryRole::GitTodo,
            EntryState::Directory { .. },
        )
        | (_, EntryState::Absent) => true,
    }
}

fn text_of(state: &EntryState) -> Option<String> {
    Some(str::from_utf8(state.bytes()?).ok()?.to_owned())
}

/// Returns what settings or a list may start. Of a file that git would not understand either, its whole content.
fn programs_in(path: &Path, role: InventoryRole, state: &EntryState) -> BTreeSet<String> {
    let EntryState::File { .. } = state else { return BTreeSet::new() };
    let Some(bytes) = state.bytes() else { return BTreeSet::from([format!("{state:?}")]) };
    if role == InventoryRole::GitTodo {
        return git_todo::programs(path, bytes);
    }
    match git_config::parse(&String::from_utf8_lossy(bytes)) {
        Ok(settings) => {
            let programs = settings.iter().filter(|setting| !setting.is_harmless());
            programs.map(|setting| format!("{setting:?}")).collect()
        }
        Err(git_config::NotSettings) => BTreeSet::from([format!("{bytes:?}")]),
    }
}

/// A directory that the kernel sealed is not looked into. If the user put another one in its place, all in it is new, and none
/// of it was made by a command before.
fn is_in_unsealed_directory(path: &Path, before: &Inventory) -> bool {
    path.ancestors()
        .skip(1)
        .any(|above| before.entries.get(above).is_some_and(|entry| entry.is_shallow))
}

/// Returns what is to be moved: the repository by which the path became one that counts, or the outermost directory that was
/// not there.
fn outermost_new(
    path: &Path,
    entry: &InventoryEntry,
    before: &Inventory,
    now: &Inventory,
) -> PathBuf {
    let was_absent = |path: &Path| {
        before.entries.get(path).is_none_or(|entry| entry.state == EntryState::Absent)
    };
    if let Some(entrance) = entry.entrance.as_deref().filter(|entrance| was_absent(entrance)) {
        return entrance.to_owned();
    }
    let is_new = |above: &&Path| now.entries.contains_key(*above) && was_absent(above);
    path.ancestors().skip(1).take_while(is_new).last().unwrap_or(path).to_owned()
}
