//! The folders that the commands of a line may run in.

use std::path::{Component, Path, PathBuf};

use crow_core::tool::{CommandWord, SimpleCommand};

use super::command_context::{FollowLinks, resolve};
use crate::parse::LineFacts;

/// The most folders that are tracked.
const MAX_FOLDERS: usize = 6;

/// A folder that the shell may be in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FolderPosition {
    /// The resolved folder.
    folder: PathBuf,
    /// The logical path by which it was reached, from which the shell removes `..`.
    way: PathBuf,
}

/// The folders that the next command may run in.
#[derive(Debug)]
pub(super) struct PossibleFolders {
    known: Option<Vec<FolderPosition>>,
    /// Index of the command that changes the folder before all others, which then run there.
    lead: Option<usize>,
}

impl PossibleFolders {
    /// Starts with the folder that the line starts in.
    pub(super) fn new(start: &Path, commands: &[SimpleCommand], notes: &LineFacts) -> Self {
        let moves = |command: &SimpleCommand| {
            let program = command.words.first().and_then(CommandWord::as_literal);
            program.is_some_and(|program| ["cd", "pushd", "popd", "source", "."].contains(&program))
        };
        let mut others = commands
            .iter()
            .enumerate()
            .filter(|(at, it)| moves(it) && notes.leading_cd != Some(*at));
        // In a loop, a later command can run before an earlier one.
        let is_lost = notes.repeats && others.next().is_some();
        let start = FolderPosition { folder: start.to_owned(), way: start.to_owned() };
        Self { known: (!is_lost).then(|| vec![start]), lead: notes.leading_cd }
    }

    /// Returns the folders; `None` if unknown.
    pub(super) fn known(&self) -> Option<Vec<PathBuf>> {
        Some(distinct(self.known.as_ref()?))
    }

    /// Marks the folders of the following commands as unknown.
    pub(super) fn mark_unknown(&mut self) {
        self.known = None;
    }

    /// Applies a change of folder, and returns the folders that it may lead to. Unless it is certain to come first
    /// and to succeed, the next command may also run in the previous folders.
    pub(super) fn change_folder(
        &mut self,
        at: usize,
        target: &str,
        is_sure: bool,
    ) -> Option<Vec<PathBuf>> {
        let from = self.known.take()?;
        let mut known: Vec<FolderPosition> = Vec::new();
        for position in &from {
            for reached in position.go(target)? {
                if !known.contains(&reached) {
                    known.push(reached);
                }
            }
        }
        let reached = distinct(&known);
        // Resolving an entry in it needs the permission to enter it.
        let can_enter = |path: &PathBuf| path.join(".").is_dir();
        if !is_sure || self.lead != Some(at) || !reached.iter().all(can_enter) {
            known.extend(from);
        }
        self.known = (known.len() <= MAX_FOLDERS).then_some(known);
        Some(reached)
    }
}

impl FolderPosition {
    /// Returns the folders that `cd` may lead to: the shell removes `..` from its logical path; where that fails, or
    /// with `-P`, the kernel resolves it from the physical folder.
    fn go(&self, target: &str) -> Option<Vec<Self>> {
        let base = |path| if target.starts_with('/') { Path::new("/") } else { path };
        let folder = resolve(base(&self.folder), target, FollowLinks::Yes)?;
        let mut way = base(&self.way).to_owned();
        for part in Path::new(target).components() {
            match part {
                Component::ParentDir => drop(way.pop()),
                Component::Normal(name) => way.push(name),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        let logical = resolve(Path::new("/"), way.to_str()?, FollowLinks::Yes)?;
        let mut positions = vec![Self { folder: logical.clone(), way }];
        if logical != folder {
            positions.push(Self { way: folder.clone(), folder });
        }
        Some(positions)
    }
}

fn distinct(positions: &[FolderPosition]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for position in positions {
        if !folders.contains(&position.folder) {
            folders.push(position.folder.clone());
        }
    }
    folders
}
