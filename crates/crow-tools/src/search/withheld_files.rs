//! Files that a search leaves out, although permission was given for the folder that is searched.

use std::path::{Path, PathBuf};

use crow_core::{
    permission::{WithheldReads, is_secret_file_in},
    tool::ToolContext,
    workspace::Workspace,
};

/// The files that a search below a folder leaves out: those that the sandbox hides from commands, those whose names
/// suggest keys, and those that rules keep from being read. A call that names one of them is asked about or denied,
/// so a call that names the folder around it must not reach it.
#[derive(Debug, Clone)]
pub(crate) struct WithheldFiles {
    workspace: Workspace,
    /// The hidden paths in the folder.
    hidden: Vec<PathBuf>,
    /// True if the name of the folder itself suggests keys: then the user was asked about everything in it.
    is_approved: bool,
    /// Files that rules of the user keep from being read.
    rules: WithheldReads,
}

impl WithheldFiles {
    /// Determines the files that are left out below `root`.
    pub(crate) fn for_root(root: &Path, ctx: &ToolContext) -> Self {
        let is_inside = |path: &&PathBuf| path.starts_with(root) && path.as_path() != root;
        Self {
            workspace: ctx.workspace.clone(),
            hidden: ctx.sandbox_paths.get().hidden.iter().filter(is_inside).cloned().collect(),
            is_approved: is_secret_file_in(root, &ctx.workspace),
            rules: ctx.withheld_reads.below(root, &ctx.workspace),
        }
    }

    /// Returns true if a rule keeps a folder below the root from being read: its content is not listed.
    pub(crate) fn is_unlisted(&self, folder: &Path) -> bool {
        self.rules.contains(folder, &self.workspace)
    }

    /// Returns true if a file or folder is hidden from commands. A root of the workspace within a hidden path is not.
    pub(super) fn is_hidden(&self, path: &Path) -> bool {
        self.hidden.iter().any(|entry| {
            path.starts_with(entry)
                && !self
                    .workspace
                    .roots()
                    .iter()
                    .any(|root| root != entry && root.starts_with(entry) && path.starts_with(root))
        })
    }

    /// Returns true if the content of a file is not searched.
    pub(super) fn is_secret(&self, path: &Path) -> bool {
        !self.is_approved && is_secret_file_in(path, &self.workspace)
            || self.rules.contains(path, &self.workspace)
    }
}
