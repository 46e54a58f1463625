//! A path to match rules against, prepared once for all rules.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use super::{
    RuleRegex, access_class::is_protected, call_part::RuleMatch, evaluate::DecisionContext,
};
use crate::workspace::Workspace;

/// A path to match rules against.
#[derive(Debug)]
pub(super) struct PermissionPath<'a> {
    path: Cow<'a, Path>,
    /// The same path relative to each root that contains it.
    below_roots: Vec<PathBuf>,
    /// The path for people, see [`Workspace::display`].
    shown: String,
    /// True if only a rule that names the protected directory may allow changes.
    protected: bool,
}

impl<'a> PermissionPath<'a> {
    pub(super) fn new(path: &'a Path, setting: &DecisionContext<'_>) -> Self {
        let base = Self::of(normalize_separators(path), setting.workspace);
        Self { protected: is_protected(base.path(), setting), ..base }
    }

    /// Makes one from a path that a shell line names. Protection is not checked.
    pub(super) fn named(path: &str, workspace: &Workspace) -> PermissionPath<'static> {
        PermissionPath::of(Cow::Owned(workspace.resolve(path)), workspace)
    }

    /// Makes one for matching only. Protection is not checked.
    pub(super) fn of_path(path: &'a Path, workspace: &Workspace) -> Self {
        Self::of(normalize_separators(path), workspace)
    }

    fn of(path: Cow<'a, Path>, workspace: &Workspace) -> Self {
        let roots = workspace.roots().iter();
        let below = roots.filter_map(|root| path.strip_prefix(root).ok().map(Path::to_path_buf));
        Self {
            below_roots: below.collect(),
            shown: workspace.display(&path),
            protected: false,
            path,
        }
    }

    /// Marks it as protected, although its own name is not: protected directories are inside.
    pub(super) fn into_protected(self) -> Self {
        Self { protected: true, ..self }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path for people.
    pub(super) fn display_text(&self) -> &str {
        &self.shown
    }

    pub(super) fn is_protected(&self) -> bool {
        self.protected
    }

    /// Returns true if it is the file or directory that a rule names, or lies below it. A relative one applies in
    /// every root.
    pub(super) fn is_within(&self, named: &Path) -> bool {
        if named.is_absolute() {
            is_below(&self.path, named)
        } else {
            self.below_roots.iter().any(|below| is_below(below, named))
        }
    }

    /// Returns true if a file or directory that a rule names lies below it.
    pub(super) fn contains(&self, named: &Path) -> bool {
        if named.is_absolute() {
            is_below(named, &self.path)
        } else {
            self.below_roots
                .iter()
                .any(|below| below.as_os_str().is_empty() || is_below(named, below))
        }
    }

    pub(super) fn match_regex(&self, regex: &RuleRegex) -> RuleMatch {
        regex.find_in(&self.path.to_string_lossy()).or(regex.find_in(&self.shown))
    }
}

/// Normalizes a path to have no doubled and trailing separators, so that paths can be compared byte by byte.
pub(super) fn normalize_separators(path: &Path) -> Cow<'_, Path> {
    let uniform: PathBuf = path.components().collect();
    if uniform.as_os_str() == path.as_os_str() { Cow::Borrowed(path) } else { Cow::Owned(uniform) }
}

/// Equals `Path::starts_with` for uniform paths, without parsing both: hundreds of rules are matched against each path.
fn is_below(path: &Path, folder: &Path) -> bool {
    let (path, folder) =
        (path.as_os_str().as_encoded_bytes(), folder.as_os_str().as_encoded_bytes());
    let is_separator = |byte: &u8| std::path::is_separator(char::from(*byte));
    path.strip_prefix(folder).is_some_and(|rest| {
        rest.first().is_none_or(is_separator) || folder.last().is_some_and(is_separator)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn comparing_bytes_equals_comparing_components(path in "/?([ab]{1,2}/{1,2}){0,3}[ab]?", folder in "/?([ab]{1,2}/{1,2}){0,2}[ab]?") {
            let (path, folder) = (Path::new(&path), Path::new(&folder));
            if folder.components().next().is_some() {
                prop_assert_eq!(is_below(&normalize_separators(path), &normalize_separators(folder)), path.starts_with(folder));
            }
        }
    }
}
