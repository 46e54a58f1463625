//! What differs between two inventories, and what is to be done about it.
//!
//! A difference is left alone if it starts nothing (an empty directory, a repository as `git init` makes it), or if the
//! command cannot have made it because the kernel kept it from that very file. All others are undone: what was there is put
//! back, what was not is moved aside.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::{
    entry_state::{EntryState, is_absence},
    git_config,
    inventory::{Inventory, InventoryEntry, Role, SealedPaths},
};

/// What is to be done about a difference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Repair {
    /// Something new starts programs: it is moved aside.
    MoveAside(PathBuf),
    /// Something was changed or removed: it becomes again what it was.
    PutBack(PathBuf),
}

/// Which differences commands may have made.
pub(super) enum Blame<'a> {
    /// All but those of files that the kernel seals.
    NotSealed(&'a dyn SealedPaths),
    /// Those of files that did not change after this moment, in seconds since 1970.
    ChangedUntil(i64),
}

impl Blame<'_> {
    fn may_have_changed(&self, path: &Path) -> bool {
        match self {
            Self::NotSealed(sealed) => !sealed.is_kept(path),
            // What is gone starts nothing.
            Self::ChangedUntil(until) => {
                crow_fs::metadata(path).is_ok_and(|found| found.changed.0 <= *until)
            }
        }
    }
}

/// Returns what is to be done.
pub(super) fn judge(before: &Inventory, now: &Inventory, blame: &Blame<'_>) -> BTreeSet<Repair> {
    let mut repairs = BTreeSet::new();
    for (path, entry) in &before.entries {
        let Some(state) = state_now(path, entry, now) else { continue };
        if entry.state == state || is_repository_gone(entry, path, now) {
            continue;
        }
        let may_have_changed = blame.may_have_changed(path);
        if may_have_changed && !is_harmless_change(entry, &state) {
            repairs.insert(Repair::PutBack(path.clone()));
        }
    }
    for (path, entry) in &now.entries {
        let is_new = !before.entries.contains_key(path);
        if is_new
            && !is_harmless(entry, &entry.state)
            && !is_in_unsealed_directory(path, before)
            && blame.may_have_changed(path)
        {
            repairs.insert(Repair::MoveAside(outermost_new(path, entry, before, now)));
        }
    }
    repairs
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
        Some(entrance) if entrance == path => entry.role == Role::GitEntrance && is_absent(path),
        Some(entrance) => is_absent(entrance),
        None => false,
    }
}

fn is_harmless_change(before: &InventoryEntry, now: &EntryState) -> bool {
    match (before.role, now) {
        (Role::GitSettings, EntryState::File { .. }) => {
            programs_in(now).is_subset(&programs_in(&before.state))
        }
        (Role::GitTodo, now) => is_harmless(before, now),
        _ => before.state == EntryState::Absent && is_harmless(before, now),
    }
}

/// Returns whether something that was not there before starts nothing.
fn is_harmless(entry: &InventoryEntry, state: &EntryState) -> bool {
    let is_empty = || state.bytes().is_some_and(<[u8]>::is_empty);
    match (entry.role, state) {
        // What is there is known only by its name.
        (_, EntryState::Special | EntryState::Unreadable | EntryState::Symlink { .. })
        | (Role::BareRepository, EntryState::File { .. } | EntryState::Directory { .. }) => false,
        // Where it leads is an entry of its own, if commands can change it.
        (Role::GitRedirect | Role::GitEntrance, EntryState::File { .. }) => !entry.leads_outside,
        (Role::GitSettings, EntryState::File { .. }) => programs_in(state).is_empty(),
        (Role::GitTodo, EntryState::File { .. }) => !has_commands(state),
        (Role::Settings | Role::GitHook, EntryState::File { .. }) => is_empty(),
        (_, EntryState::Directory { .. }) if entry.is_cut => false,
        // What is in it cannot be looked at.
        (_, EntryState::Directory { mode }) if mode & 0o500 != 0o500 => false,
        // What is in it are entries of their own.
        (
            Role::Settings
            | Role::GitHook
            | Role::GitRedirect
            | Role::GitEntrance
            | Role::GitSettings
            | Role::GitTodo,
            EntryState::Directory { .. },
        )
        | (_, EntryState::Absent) => true,
    }
}

/// Returns the settings that may start a program. Of a file that git would not understand either, its whole content.
fn programs_in(state: &EntryState) -> BTreeSet<String> {
    let EntryState::File { .. } = state else { return BTreeSet::new() };
    let Some(bytes) = state.bytes() else { return BTreeSet::from([format!("{state:?}")]) };
    let text = String::from_utf8_lossy(bytes);
    match git_config::parse(&text) {
        Ok(settings) => {
            let programs = settings.iter().filter(|setting| !setting.is_harmless());
            programs.map(|setting| format!("{setting:?}")).collect()
        }
        Err(git_config::NotSettings) => BTreeSet::from([format!("{bytes:?}")]),
    }
}

/// Returns whether a list of what git does next has commands of a shell.
fn has_commands(state: &EntryState) -> bool {
    let text = String::from_utf8_lossy(state.bytes().unwrap_or(b"exec"));
    text.lines().any(|line| {
        let word = line.split_whitespace().next().unwrap_or_default();
        matches!(word, "exec" | "x")
    })
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
