//! Files that rules keep from being read, for tools that look at everything below a folder.

use std::path::Path;

use super::{RuleMatcher, call_part::RuleMatch, permission_path::PermissionPath};
use crate::{tool_types::Access, workspace::Workspace};

/// The files that rules of the user deny reading, or ask about, as they hold for one call.
///
/// A search through a folder is decided upon by the folder. What a rule says of a file in it holds all the same: a tool
/// that looks at everything below leaves out what [`contains`](Self::contains) names.
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

    /// Returns what is withheld below a folder that a call names: what rules say of the folder itself decided upon the call.
    #[must_use]
    pub fn below(&self, folder: &Path, workspace: &Workspace) -> Self {
        let place = PermissionPath::of_path(folder, workspace);
        let matchers = self.matchers.iter().filter(|matcher| !speaks_of(matcher, &place));
        Self { matchers: matchers.cloned().collect() }
    }

    /// Returns whether a file or folder is withheld. The path is absolute.
    pub fn contains(&self, path: &Path, workspace: &Workspace) -> bool {
        if self.matchers.is_empty() {
            return false;
        }
        let place = PermissionPath::of_path(path, workspace);
        self.matchers.iter().any(|matcher| speaks_of(matcher, &place))
    }
}

fn speaks_of(matcher: &RuleMatcher, place: &PermissionPath<'_>) -> bool {
    match matcher {
        RuleMatcher::Path { path, .. } => place.lies_in(path),
        RuleMatcher::Regex(regex) => place.is_found_by(regex) != RuleMatch::No,
        RuleMatcher::ToolName(_)
        | RuleMatcher::ToolCategory(_)
        | RuleMatcher::CommandPrefix(_)
        | RuleMatcher::Custom(_)
        | RuleMatcher::All => false,
    }
}
