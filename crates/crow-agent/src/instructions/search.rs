//! The search for the files whose instructions count in a session.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use crow_core::{event::InstructionFile, permission::SandboxPaths, workspace::Workspace};

use super::{
    file::{InstructionFlaw, InstructionScope, InstructionText, read_folder},
    update::{InstructionUpdate, MOST_BYTES},
};

/// Most files of other folders than those up to the root.
const MOST_NESTED: usize = 64;
/// Folders with the code of others, which package managers put there: its instructions are for its authors.
const FOLDERS_OF_OTHERS: [&str; 8] = [
    ".git",
    "node_modules",
    "bower_components",
    "vendor",
    "site-packages",
    ".venv",
    "venv",
    ".tox",
];

/// Where an agent's instructions come from, besides the folders that it works in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstructionSources {
    /// The folder with the user's own instructions.
    pub user_folder: Option<PathBuf>,
}

/// The files whose instructions a session in a folder begins with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstructionListing {
    /// The files, the user's first, then from the root of the repository to the working directory, with what is shown
    /// of each.
    pub files: Vec<InstructionFile>,
    /// Flaws of these and of others that are not used.
    pub flaws: Vec<InstructionFlaw>,
}

impl InstructionSources {
    /// Lists the files whose instructions a new session begins with if the model has a large window. Blocks.
    pub fn list(&self, workspace: &Workspace, places: &SandboxPaths) -> InstructionListing {
        let found = InstructionSearch::new(self, workspace).run(places);
        let update = InstructionUpdate::new(&found, &[], MOST_BYTES);
        InstructionListing {
            files: update.map(|update| update.files).unwrap_or_default(),
            flaws: found.flaws,
        }
    }
}

/// A search for the files with instructions of one session.
#[derive(Debug, Clone)]
pub(super) struct InstructionSearch {
    user_folder: Option<PathBuf>,
    workspace: Workspace,
    /// Further folders in which the agent read or changed files.
    nested: BTreeSet<PathBuf>,
    /// The root of the repository, or the working directory if there is none.
    root: PathBuf,
}

/// The files that a search found.
#[derive(Debug, Default)]
pub(super) struct FoundInstructions {
    /// The user's own.
    pub(super) user: Option<InstructionText>,
    /// From the root of the repository to the working directory.
    pub(super) chain: Vec<InstructionText>,
    /// Of other folders, the outer ones first.
    pub(super) nested: Vec<InstructionText>,
    pub(super) flaws: Vec<InstructionFlaw>,
}

impl InstructionSearch {
    /// Prepares the search of what a session begins with. Blocks.
    pub(super) fn new(sources: &InstructionSources, workspace: &Workspace) -> Self {
        let is_root =
            |folder: &&Path| crow_fs::metadata_through_links(&folder.join(".git")).is_ok();
        let cwd = workspace.cwd();
        let root = cwd.ancestors().find(is_root).unwrap_or(cwd).to_path_buf();
        Self {
            user_folder: sources.user_folder.clone(),
            // Hidden folders above the repository do not hide the repository itself.
            workspace: workspace.clone().with_root(&root),
            nested: BTreeSet::new(),
            root,
        }
    }

    /// Adds folders whose instructions the model was given before.
    pub(super) fn add_known(&mut self, folders: BTreeSet<PathBuf>) {
        for folder in folders {
            if self.base_of(&folder).is_some() {
                self.nested.insert(folder);
            }
        }
    }

    /// Adds a folder, whose path is resolved, with those above it up to one that the agent works in.
    pub(super) fn add_folders(&mut self, folder: &Path) {
        let Some(base) = self.base_of(folder).map(Path::to_path_buf) else { return };
        let folders = folder.ancestors().take_while(|folder| folder.starts_with(&base));
        self.nested.extend(folders.map(Path::to_path_buf));
    }

    /// Returns the innermost folder that the agent works in and that contains this one. Returns `None` for folders
    /// elsewhere and for those of others' code.
    fn base_of(&self, folder: &Path) -> Option<&Path> {
        let bases = self.workspace.roots().iter();
        let base = bases
            .filter(|base| folder.starts_with(base))
            .max_by_key(|base| base.components().count())?;
        // The repository's root is searched from there on, also if the workspace begins below it.
        let base = if base.starts_with(&self.root) { &self.root } else { base };
        let below = folder.strip_prefix(base).ok()?;
        let is_of_others = below
            .components()
            .any(|name| FOLDERS_OF_OTHERS.iter().any(|other| name.as_os_str() == *other));
        (!is_of_others).then_some(base)
    }

    /// Reads the files. A file that several names lead to is found once, by the first of them. Blocks.
    pub(super) fn run(&self, places: &SandboxPaths) -> FoundInstructions {
        let mut found = FoundInstructions::default();
        let mut seen = BTreeSet::new();
        // 1) The user's own.
        if let Some(folder) = self.user_folder.as_deref()
            && let Ok(folder) = crow_fs::canonicalize(folder)
        {
            found.user = read_folder(&folder, InstructionScope::User, &mut found.flaws);
            seen.extend(found.user.iter().map(|text| text.real.clone()));
        }
        // 2) From the root of the repository to the working directory.
        let mut chain: Vec<&Path> = self.workspace.cwd().ancestors().collect();
        chain.retain(|folder| folder.starts_with(&self.root));
        chain.reverse();
        // 3) Other folders. Their order puts outer folders first.
        let nested = self.nested.iter().map(PathBuf::as_path);
        let nested: Vec<&Path> = nested.filter(|folder| !chain.contains(folder)).collect();
        for (folders, texts) in [(chain, &mut found.chain), (nested, &mut found.nested)] {
            for folder in folders {
                if texts.len() == MOST_NESTED || places.hides(folder, &self.workspace) {
                    continue;
                }
                let root = self.base_of(folder).unwrap_or(folder);
                let scope =
                    InstructionScope::Repository { root, workspace: &self.workspace, places };
                let text = read_folder(folder, scope, &mut found.flaws);
                texts.extend(text.filter(|text| seen.insert(text.real.clone())));
            }
        }
        found
    }
}
