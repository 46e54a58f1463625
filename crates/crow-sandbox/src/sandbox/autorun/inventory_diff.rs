//! Compares two inventories, and decides how to repair the differences.
//!
//! A difference is accepted if it starts nothing (an empty directory, a repository as `git init` creates
//! it), or if the command cannot have made it because the kernel protected that very file. All others are
//! undone: previous files are put back, new ones are moved aside. Settings that only gained programs lose
//! these, and keep what else they gained. From the list of a rebase only the lines that start programs are
//! removed: the previous list would have git repeat steps that it has done.

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

/// Repair of one difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RepairAction {
    /// Moves aside something new that starts programs.
    MoveAside(PathBuf),
    /// Restores something that was changed or removed.
    PutBack(PathBuf),
    /// Removes newly named programs from a file, and keeps the rest.
    Disarm { path: PathBuf, rest: EntryState },
}

impl RepairAction {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::MoveAside(path) | Self::PutBack(path) | Self::Disarm { path, .. } => path,
        }
    }
}

/// Differences that commands may have caused.
pub(super) enum AttributableChanges<'a> {
    /// All except those of files that the kernel seals.
    NotSealed(&'a dyn SealedPaths),
    /// Those of files that did not change after this time, in nanoseconds since 1970.
    ChangedUntil(i64),
}

impl AttributableChanges<'_> {
    fn may_have_changed(&self, path: &Path) -> bool {
        match self {
            Self::NotSealed(sealed) => !sealed.is_unchangeable(path),
            // A missing file starts nothing.
            Self::ChangedUntil(until) => {
                crow_fs::metadata(path).is_ok_and(|found| nanoseconds(found.changed) <= *until)
            }
        }
    }
}

/// Whether rebases that began during the command may have commands in their lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rebases {
    /// A command may be in the middle of a rebase, and the list may contain what it runs itself.
    MayRun,
    /// All rebases have stopped: what is in a list now would run later.
    HaveEnded,
}

impl Rebases {
    pub(super) fn of(may_run: bool) -> Self {
        if may_run { Self::MayRun } else { Self::HaveEnded }
    }
}

/// Criteria for judging differences.
pub(super) struct Judge<'a> {
    pub blame: AttributableChanges<'a>,
    pub rebases: Rebases,
}

/// Result of judging the differences.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Judgement {
    /// Repairs, moves first, otherwise by path.
    pub repairs: Vec<RepairAction>,
    /// New paths that are judged when no command runs any more.
    pub undecided: BTreeSet<PathBuf>,
}

impl Judge<'_> {
    /// Judges the differences between two inventories.
    pub(super) fn judge(&self, before: &Inventory, now: &Inventory) -> Judgement {
        let mut repairs = BTreeMap::new();
        let mut undecided = BTreeSet::new();
        // 1) Entries of the old inventory that have changed or vanished.
        for (path, entry) in &before.entries {
            let Some(state) = state_now(path, entry, now) else { continue };
            if entry.state == state || is_repository_gone(entry, path, now) {
                continue;
            }
            let may_have_changed = self.blame.may_have_changed(path);
            let leads_out = !entry.leads_outside
                && now.entries.get(path).is_some_and(|entry| entry.leads_outside);
            let is_harmless = !leads_out && is_harmless_change(path, entry, &state);
            if may_have_changed && !is_harmless {
                let repair = disarmed(path, entry, &state).filter(|_| !leads_out);
                repairs.insert(path.clone(), repair.unwrap_or(RepairAction::PutBack(path.clone())));
            }
        }
        // 2) New entries.
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
        // Moves come before repairs of paths that may be inside of what is moved.
        let mut repairs: Vec<RepairAction> = repairs.into_values().collect();
        repairs.sort_by_key(|repair| !matches!(repair, RepairAction::MoveAside(_)));
        Judgement { repairs, undecided }
    }
}

/// Returns a repair that removes only the programs that the file did not name before, if the rest is still
/// useful.
fn disarmed(path: &Path, before: &InventoryEntry, now: &EntryState) -> Option<RepairAction> {
    let (EntryState::File { mode, .. }, Some(bytes)) = (now, now.bytes()) else { return None };
    let known = programs_in(path, before.role, &before.state);
    let rest = match (before.role, &before.state) {
        // If settings were also removed, restoring the old file is better than keeping the new one.
        (InventoryRole::GitSettings, EntryState::File { .. }) => {
            let (now, before_text) = (text_of(now)?, text_of(&before.state)?);
            let (now_settings, before_settings) =
                (git_config::parse(&now).ok()?, git_config::parse(&before_text).ok()?);
            if before_settings.iter().any(|setting| !now_settings.contains(setting)) {
                return None;
            }
            let is_new_program = |setting: &git_config::GitSetting| {
                !setting.is_harmless() && !before_settings.contains(setting)
            };
            git_config::remove_settings(&now, is_new_program).ok()?.into_bytes()
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

/// Returns the present state of a path of an earlier inventory. Returns `None` if the new inventory no
/// longer reaches the path: then a path that led to it differs, which is an entry of its own.
fn state_now(path: &Path, entry: &InventoryEntry, now: &Inventory) -> Option<EntryState> {
    if let Some(entry) = now.entries.get(path) {
        return Some(entry.state.clone());
    }
    let is_entered =
        entry.entrance.as_ref().is_none_or(|entrance| now.entries.contains_key(entrance));
    let is_there = crow_fs::metadata(path).map_or_else(|error| !is_absence(&error), |_| true);
    (is_entered && !is_there).then_some(EntryState::Absent)
}

/// Returns true if the repository of an entry was removed: then nothing in it can start.
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

/// Returns true if something that did not exist before starts nothing.
fn is_harmless(path: &Path, entry: &InventoryEntry, state: &EntryState) -> bool {
    let is_empty = || state.bytes().is_some_and(<[u8]>::is_empty);
    match (entry.role, state) {
        // The contents are unknown.
        (_, EntryState::Special | EntryState::Unreadable | EntryState::Symlink { .. })
        | (InventoryRole::BareRepository, EntryState::File { .. } | EntryState::Directory { .. }) => {
            false
        }
        // Its target has an entry of its own, if commands can change it.
        (InventoryRole::GitRedirect | InventoryRole::GitEntrance, EntryState::File { .. }) => {
            !entry.leads_outside
        }
        (InventoryRole::GitSettings | InventoryRole::GitTodo, EntryState::File { .. }) => {
            !entry.leads_outside && programs_in(path, entry.role, state).is_empty()
        }
        (InventoryRole::Settings | InventoryRole::GitHook, EntryState::File { .. }) => is_empty(),
        (_, EntryState::Directory { .. }) if entry.is_cut => false,
        // Its contents cannot be read.
        (_, EntryState::Directory { mode }) if mode & 0o500 != 0o500 => false,
        // Its contents have entries of their own.
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

/// Returns what settings or a state file may start. For a file that git would not understand, returns the
/// whole content as one item.
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

/// Returns true if the path lies in a directory that was sealed, and therefore not read. If the user
/// replaced such a directory, everything in it looks new, although no command has made it.
fn is_in_unsealed_directory(path: &Path, before: &Inventory) -> bool {
    path.ancestors()
        .skip(1)
        .any(|above| before.entries.get(above).is_some_and(|entry| entry.is_shallow))
}

/// Returns the path to move aside: the entrance of the repository, if that is new, or the outermost new
/// directory.
fn outermost_new(
    path: &Path,
    entry: &InventoryEntry,
    before: &Inventory,
    now: &Inventory,
) -> PathBuf {
    let was_absent = |path: &Path| {
        before.entries.get(path).is_none_or(|entry| entry.state == EntryState::Absent)
    };
    // A repository around the project has no entry itself, although commands can change what is in it.
    let is_new = |above: &&Path| now.entries.contains_key(*above) && was_absent(above);
    if let Some(entrance) = entry.entrance.as_deref().filter(is_new) {
        return entrance.to_owned();
    }
    path.ancestors().skip(1).take_while(is_new).last().unwrap_or(path).to_owned()
}
