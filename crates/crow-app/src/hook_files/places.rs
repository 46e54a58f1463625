//! Where hooks are configured.

use std::path::{Path, PathBuf};

use crate::environment::ProcessEnvironment;

/// The user's own file, in the folder of the configuration, and that of a project, in `.crow-agent`.
const OWN_FILE: &str = "hooks.json";
/// Claude Code's settings of the user, below the home.
pub(crate) const CLAUDE_USER_FILE: &str = ".claude/settings.json";
/// The files of a project: their names among the trusted files, and their paths from its root.
pub(crate) const PROJECT_FILES: [(&str, &str); 3] = [
    ("hooks.json", ".crow-agent/hooks.json"),
    ("../.claude/settings.json", ".claude/settings.json"),
    ("../.claude/settings.local.json", ".claude/settings.local.json"),
];

/// Returns true if a file of a project, by its name among the trusted files, may have hooks.
pub(crate) fn is_hook_file(name: &str) -> bool {
    PROJECT_FILES.iter().any(|(file, _)| *file == name)
}

/// Returns the files of the user that may have hooks.
pub(crate) fn user_hook_files(environment: &ProcessEnvironment) -> Vec<PathBuf> {
    let own = environment.config_dir().ok().map(|folder| folder.join(OWN_FILE));
    let home = environment.var("HOME").map(PathBuf::from);
    own.into_iter().chain(home.map(|home| home.join(CLAUDE_USER_FILE))).collect()
}

/// Resolves a path as far as it exists.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}
