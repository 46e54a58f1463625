//! Paths as the policy sees them: prepared once to match rules against, in the places of the sandbox, and withheld from
//! tools that search everything below a directory.

use std::{
    borrow::Cow,
    collections::HashSet,
    path::{Path, PathBuf},
};

use super::{
    RuleMatcher, RuleRegex, access_class::is_protected, call_part::RuleMatch,
    evaluate::DecisionContext,
};
use crate::{tool_types::Access, workspace::Workspace};

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
        | RuleMatcher::CommandRegex(_)
        | RuleMatcher::Host(_)
        | RuleMatcher::Custom(_)
        | RuleMatcher::All => false,
    }
}

/// Places beyond the workspace that sandboxed commands can read and change.
///
/// File tools run outside of the sandbox, so only the policy limits them to the same places. The value is made from
/// the configuration of the sandbox itself, even if commands run without one: what file tools may do does not depend
/// on whether there is a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxPaths {
    /// Directories and files that can be changed.
    pub writable: Vec<PathBuf>,
    /// Directories and files that file tools may read in every mode: the session's own output.
    pub readable: Vec<PathBuf>,
    /// Directories and files that commands can read although a parent directory is hidden.
    pub visible: Vec<PathBuf>,
    /// Directories and files that cannot be read: keys, the agent's own files, temporary files of other programs.
    pub hidden: Vec<PathBuf>,
    /// Files that cannot be changed, in addition to those protected by name: what a trusted configuration starts.
    pub protected: Vec<PathBuf>,
    /// Protected paths, relative to a root of the workspace, that can be changed nevertheless.
    pub unprotected: Vec<PathBuf>,
}

/// The region of a path, as the sandbox sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Region {
    /// In a root of the workspace.
    Workspace,
    /// In another place that can be changed.
    Writable,
    /// In a place that may be read in every mode.
    Readable,
    /// In a place that commands cannot see.
    Hidden,
    /// Anywhere else, where commands can read.
    Elsewhere,
}

impl SandboxPaths {
    /// Adds the places of `other` that are missing here.
    pub fn add(&mut self, other: Self) {
        for (own, further) in [
            (&mut self.writable, other.writable),
            (&mut self.readable, other.readable),
            (&mut self.visible, other.visible),
            (&mut self.hidden, other.hidden),
            (&mut self.protected, other.protected),
            (&mut self.unprotected, other.unprotected),
        ] {
            // There are hundreds of hidden places: comparing each with each would take most of the start.
            let mut known: HashSet<PathBuf> = own.iter().cloned().collect();
            own.extend(further.into_iter().filter(|path| known.insert(path.clone())));
        }
    }

    /// Adds the resolved form of each absolute path. Calls are decided by resolved paths, so a hidden `~/.ssh` must
    /// also be listed by its real path.
    #[must_use]
    pub fn resolved(mut self, resolve: impl Fn(&Path) -> PathBuf) -> Self {
        let real = |paths: &[PathBuf]| paths.iter().map(|path| resolve(path)).collect();
        let real = Self {
            writable: real(&self.writable),
            readable: real(&self.readable),
            visible: real(&self.visible),
            hidden: real(&self.hidden),
            protected: real(&self.protected),
            unprotected: Vec::new(),
        };
        self.add(real);
        self
    }

    /// Returns true if commands cannot see an absolute path without `.` and `..`.
    pub fn hides(&self, path: &Path, workspace: &Workspace) -> bool {
        self.region(path, workspace) == Region::Hidden
    }

    /// Returns the region of an absolute path without `.` and `..`.
    ///
    /// Places may contain each other: a session's output in the agent's hidden directory, a hidden directory in the
    /// workspace. The innermost counts, as the sandbox mounts them over each other; of two equal ones, the hidden
    /// one.
    pub(super) fn region(&self, path: &Path, workspace: &Workspace) -> Region {
        let workspace = innermost(workspace.roots(), path);
        let writable = innermost(&self.writable, path);
        let readable = innermost(&self.readable, path);
        let (visible, hidden) = (innermost(&self.visible, path), innermost(&self.hidden, path));
        if hidden.is_some() && hidden >= workspace.max(writable).max(readable).max(visible) {
            Region::Hidden
        } else if workspace.is_some() {
            Region::Workspace
        } else if writable.is_some() {
            Region::Writable
        } else if readable.is_some() {
            Region::Readable
        } else {
            Region::Elsewhere
        }
    }

    /// Returns true if the user removed the protection of a path in the workspace.
    pub(super) fn is_unprotected(&self, path: &Path, workspace: &Workspace) -> bool {
        let below = workspace.roots().iter().filter_map(|root| path.strip_prefix(root).ok());
        below.into_iter().any(|below| self.unprotected.iter().any(|free| below.starts_with(free)))
    }
}

/// Returns the depth of the innermost of these places that contains a path.
fn innermost(places: &[PathBuf], path: &Path) -> Option<usize> {
    let containing = places.iter().filter(|place| path.starts_with(place));
    containing.map(|place| place.components().count()).max()
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

    #[test]
    fn the_innermost_place_counts_and_of_two_the_hidden_one() {
        let places = SandboxPaths {
            writable: vec!["/cache".into()],
            readable: vec!["/users/u/.data/crow/scratch".into()],
            visible: vec!["/proc/cpuinfo".into()],
            hidden: vec![
                "/users/u/.data/crow".into(),
                "/p/notes".into(),
                "/users/u/.ssh".into(),
                "/proc".into(),
            ],
            ..SandboxPaths::default()
        };
        let workspace =
            Workspace::new("/p").with_root("/users/u/.ssh").with_root("/users/u/.data/crow/own");
        for (path, region) in [
            ("/p/a", Region::Workspace),
            ("/p/notes/a", Region::Hidden),
            ("/cache/a", Region::Writable),
            ("/cached", Region::Elsewhere),
            ("/users/u/.data/crow/key", Region::Hidden),
            ("/users/u/.data/crow/scratch/a", Region::Readable),
            ("/users/u/.data/crow/own/a", Region::Workspace),
            ("/users/u/.ssh/id", Region::Hidden),
            ("/etc/passwd", Region::Elsewhere),
            ("/proc/cpuinfo", Region::Elsewhere),
            ("/proc/1/environ", Region::Hidden),
        ] {
            assert_eq!(places.region(Path::new(path), &workspace), region, "{path}");
        }
    }

    #[test]
    fn added_places_come_last_and_once() {
        let hidden = |paths: &[&str]| SandboxPaths {
            hidden: paths.iter().map(PathBuf::from).collect(),
            ..SandboxPaths::default()
        };
        let mut places = hidden(&["/b", "/a"]);
        places.add(hidden(&["/c", "/a/", "/c", "/d"]));
        assert_eq!(places, hidden(&["/b", "/a", "/c", "/d"]));
    }

    #[test]
    fn a_hidden_place_also_matches_by_its_resolved_path() {
        let places =
            SandboxPaths { hidden: vec!["/users/u/.ssh".into()], ..SandboxPaths::default() };
        let real = |path: &Path| Path::new("/data").join(path.strip_prefix("/users").unwrap());
        let places = places.resolved(real);
        let workspace = Workspace::new("/p");
        assert!(places.hides(Path::new("/data/u/.ssh/id"), &workspace));
        assert!(places.hides(Path::new("/users/u/.ssh/id"), &workspace));
    }
}
