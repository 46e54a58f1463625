//! Files that rules withhold from reading, for tools that search everything below a directory.

use std::path::Path;

use super::{RuleMatcher, call_part::RuleMatch, permission_path::PermissionPath};
use crate::{tool_types::Access, workspace::Workspace};

/// The files that rules deny reading, or ask about, for one call.
///
/// A search through a directory is decided by the directory. Rules about a file in it apply nevertheless: a tool that
/// reads everything below a directory leaves out what [`contains`](Self::contains) names.
#[derive(Debug, Clone, Default)]
pub struct WithheldReads {
    matchers: Vec<RuleMatcher>,
}

impl WithheldReads {
    pub(super) fn new<'a>(matchers: impl Iterator<Item = &'a RuleMatcher>) -> Self {
        let is_about_files = |matcher: &&RuleMatcher| {
            matches!(
                matcher,
                RuleMatcher::Path { access: Access::Read, .. } | RuleMatcher::Regex(_)
            )
        };
        Self { matchers: matchers.filter(is_about_files).cloned().collect() }
    }

    /// Returns what is withheld below a directory that a call names. Rules about the directory itself already decided
    /// the call.
    #[must_use]
    pub fn below(&self, folder: &Path, workspace: &Workspace) -> Self {
        let candidate = PermissionPath::of_path(folder, workspace);
        let matchers = self.matchers.iter().filter(|matcher| !matches_path(matcher, &candidate));
        Self { matchers: matchers.cloned().collect() }
    }

    /// Returns true if a file or directory is withheld. The path is absolute.
    pub fn contains(&self, path: &Path, workspace: &Workspace) -> bool {
        if self.matchers.is_empty() {
            return false;
        }
        let candidate = PermissionPath::of_path(path, workspace);
        self.matchers.iter().any(|matcher| matches_path(matcher, &candidate))
    }
}

fn matches_path(matcher: &RuleMatcher, candidate: &PermissionPath<'_>) -> bool {
    match matcher {
        RuleMatcher::Path { path, .. } => candidate.is_within(path),
        RuleMatcher::Regex(regex) => candidate.match_regex(regex) != RuleMatch::No,
        RuleMatcher::ToolName(_)
        | RuleMatcher::ToolCategory(_)
        | RuleMatcher::CommandPrefix(_)
        | RuleMatcher::Custom(_)
        | RuleMatcher::All => false,
    }
}
