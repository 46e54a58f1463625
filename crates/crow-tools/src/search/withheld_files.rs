//! What a search leaves out although permission was given for the folder that is searched.

use std::path::{Path, PathBuf};

use crow_core::{
    permission::{WithheldReads, is_secret_file_in},
    tool::ToolContext,
    workspace::Workspace,
};

/// What a search below a folder leaves out: what the sandbox hides from commands, files whose names say that they hold
/// keys, and what rules keep from being read. All of it is asked about or denied when a call names it, so a call that names
/// the folder around it must not reach it.
#[derive(Debug, Clone)]
pub(crate) struct WithheldFiles {
    workspace: Workspace,
    /// The hidden places in the folder.
    hidden: Vec<PathBuf>,
    /// Whether the folder itself has the name of what holds keys: then the user was asked about all that is in it.
    was_asked: bool,
    /// What rules of the user keep from being read.
    by_rule: WithheldReads,
}

impl WithheldFiles {
    /// Finds out what is left out below `root`.
    pub(crate) fn below(root: &Path, ctx: &ToolContext) -> Self {
        let is_inside = |place: &&PathBuf| place.starts_with(root) && place.as_path() != root;
        Self {
            workspace: ctx.workspace.clone(),
            hidden: ctx.places.hidden.iter().filter(is_inside).cloned().collect(),
            was_asked: is_secret_file_in(root, &ctx.workspace),
            by_rule: ctx.withheld_reads.below(root, &ctx.workspace),
        }
    }

    /// Returns whether a rule keeps a folder below the named one from being read: what it holds is not listed.
    pub(crate) fn is_unlisted(&self, folder: &Path) -> bool {
        self.by_rule.contains(folder, &self.workspace)
    }

    /// Returns whether a file or folder is hidden from commands. A root of the workspace in a hidden place is not.
    pub(super) fn is_hidden(&self, path: &Path) -> bool {
        self.hidden.iter().any(|place| {
            path.starts_with(place)
                && !self
                    .workspace
                    .roots()
                    .iter()
                    .any(|root| root != place && root.starts_with(place) && path.starts_with(root))
        })
    }

    /// Returns whether the content of a file is not searched.
    pub(super) fn is_secret(&self, path: &Path) -> bool {
        !self.was_asked && is_secret_file_in(path, &self.workspace)
            || self.by_rule.contains(path, &self.workspace)
    }
}
