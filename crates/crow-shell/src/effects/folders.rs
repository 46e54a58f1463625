//! The folders that the commands of a line may run in.

use std::path::{Component, Path, PathBuf};

use crow_core::tool::{CommandWord, SimpleCommand};

use super::command_context::{FollowLinks, resolve};
use crate::parse::LineNotes;

/// The most folders that are told apart.
const MAX_FOLDERS: usize = 6;

/// A folder that the shell may be in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FolderPosition {
    /// Where it is.
    folder: PathBuf,
    /// The path that it came by, from which it takes `..` away.
    way: PathBuf,
}

/// The folders that the next command may run in.
#[derive(Debug)]
pub(super) struct PossibleFolders {
    known: Option<Vec<FolderPosition>>,
    /// The command that goes to a folder before anything else, in which all others then run.
    lead: Option<usize>,
}

impl PossibleFolders {
    /// Begins with the folder that the line starts in.
    pub(super) fn new(start: &Path, commands: &[SimpleCommand], notes: &LineNotes) -> Self {
        let moves = |command: &SimpleCommand| {
            let program = command.words.first().and_then(CommandWord::as_literal);
            program.is_some_and(|program| ["cd", "pushd", "popd", "source", "."].contains(&program))
        };
        let mut others =
            commands.iter().enumerate().filter(|(at, it)| moves(it) && notes.lead != Some(*at));
        // What stands later in a loop runs before what stands earlier.
        let is_lost = notes.repeats && others.next().is_some();
        let start = FolderPosition { folder: start.to_owned(), way: start.to_owned() };
        Self { known: (!is_lost).then(|| vec![start]), lead: notes.lead }
    }

    /// Returns the folders, if they are known.
    pub(super) fn known(&self) -> Option<Vec<PathBuf>> {
        Some(distinct(self.known.as_ref()?))
    }

    /// Notes that nobody knows where the commands after this one run.
    pub(super) fn lose(&mut self) {
        self.known = None;
    }

    /// Goes to a folder, and returns which that may be. Unless it surely comes first and succeeds, the next command may
    /// run in the folders before, too.
    pub(super) fn go(&mut self, at: usize, target: &str, is_sure: bool) -> Option<Vec<PathBuf>> {
        let from = self.known.take()?;
        let mut known: Vec<FolderPosition> = Vec::new();
        for stand in &from {
            for reached in stand.go(target)? {
                if !known.contains(&reached) {
                    known.push(reached);
                }
            }
        }
        let reached = distinct(&known);
        // Looking at its own entry takes the permission to enter it.
        let can_enter = |path: &PathBuf| path.join(".").is_dir();
        if !is_sure || self.lead != Some(at) || !reached.iter().all(can_enter) {
            known.extend(from);
        }
        self.known = (known.len() <= MAX_FOLDERS).then_some(known);
        Some(reached)
    }
}

impl FolderPosition {
    /// Where `cd` may lead: the shell takes `..` from the path that it came by, and where that fails, or with `-P`, the
    /// kernel from the folder that it is in.
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
        let mut stands = vec![Self { folder: logical.clone(), way }];
        if logical != folder {
            stands.push(Self { way: folder.clone(), folder });
        }
        Some(stands)
    }
}

fn distinct(stands: &[FolderPosition]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for stand in stands {
        if !folders.contains(&stand.folder) {
            folders.push(stand.folder.clone());
        }
    }
    folders
}
