//! What a search leaves out although permission was given for the folder that is searched.

use std::path::{Path, PathBuf};

use crow_core::{permission::is_secret_file_in, tool::ToolContext, workspace::Workspace};

/// What a search below a folder leaves out: what the sandbox hides from commands, and files whose names say that they hold
/// keys. Both are asked about when a call names them, so a call that names the folder around them must not reach them.
#[derive(Debug, Clone)]
pub(crate) struct WithheldFiles {
    workspace: Workspace,
    /// The hidden places in the folder.
    hidden: Vec<PathBuf>,
    /// Whether the folder itself has the name of what holds keys: then the user was asked about all that is in it.
    was_asked: bool,
}

impl WithheldFiles {
    /// Finds out what is left out below `root`.
    pub(crate) fn below(root: &Path, ctx: &ToolContext) -> Self {
        let is_inside = |place: &&PathBuf| place.starts_with(root) && place.as_path() != root;
        Self {
            workspace: ctx.workspace.clone(),
            hidden: ctx.places.hidden.iter().filter(is_inside).cloned().collect(),
            was_asked: is_secret_file_in(root, &ctx.workspace),
        }
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
    }
}
