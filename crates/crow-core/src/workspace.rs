//! The directories that an agent works in, as paths only: nothing here checks whether they exist.

use std::path::{Component, Path, PathBuf};

pub use crate::protected::PROTECTED;

/// The working directory and the roots of an agent's workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    cwd: PathBuf,
    roots: Vec<PathBuf>,
}

impl Workspace {
    /// Makes a workspace of one root, which is also the working directory. The path must be absolute and resolved.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self { cwd: root.clone(), roots: vec![root] }
    }

    /// Sets another working directory.
    #[must_use]
    pub fn with_cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = cwd.into();
        self
    }

    /// Adds a further root.
    #[must_use]
    pub fn with_root(mut self, root: impl Into<PathBuf>) -> Self {
        self.roots.push(root.into());
        self
    }

    /// Returns the working directory.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Returns the first root: the project.
    pub fn project(&self) -> &Path {
        self.roots.first().unwrap_or(&self.cwd)
    }

    /// Returns the roots after the first one.
    pub fn further(&self) -> &[PathBuf] {
        self.roots.get(1..).unwrap_or_default()
    }

    /// Returns the roots, the first one first.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Makes a path absolute against the working directory and removes `.` and `..`.
    pub fn resolve(&self, path: impl AsRef<Path>) -> PathBuf {
        normalize(&self.cwd.join(path))
    }

    /// Returns true if an absolute path without `.` and `..` lies in one of the roots.
    pub fn contains(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }

    /// Formats a path as short as is unambiguous: relative inside the working directory, else absolute.
    pub fn display(&self, path: &Path) -> String {
        match path.strip_prefix(&self.cwd) {
            Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
            Ok(rest) => rest.display().to_string(),
            Err(_) => path.display().to_string(),
        }
    }
}

/// Directory that a session's shell commands start in after one of them changed it. Absolute and resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellFolder(pub PathBuf);

impl ShellFolder {
    /// Key of this directory in a result's `extra`.
    pub const EXTRA_KEY: &str = "shell_folder";
}

/// Removes `.` and `..` from an absolute path.
fn normalize(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                clean.push(component);
            }
        }
    }
    clean
}

/// Returns the path below `root` that a relative path means in a folder above the root: for `/users/me/project`, the path
/// `me/project/tools/x.sh` in `/users` means `tools/x.sh`. Returns `None` if it leads nowhere below the root from any folder above.
///
/// A script may change to such a folder before it starts a file of the project.
pub fn path_from_above<'a>(root: &Path, path: &'a str) -> Option<&'a str> {
    let mut path = path.trim_start_matches('/');
    while let Some(rest) = path.strip_prefix("./").or_else(|| path.strip_prefix("../")) {
        path = rest.trim_start_matches('/');
    }
    // The first name that differs ends a comparison: a root may have 2,000 names, and a script thousands of words.
    let root = root.as_os_str().as_encoded_bytes();
    let starts = root.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
    starts.map(|(slash, _)| &root[slash + 1..]).find_map(|names| {
        let mut rest = path;
        for name in names.split(|byte| *byte == b'/') {
            let name = std::str::from_utf8(name).ok()?;
            rest = rest.strip_prefix(name)?.strip_prefix('/')?.trim_start_matches('/');
        }
        (!rest.is_empty()).then_some(rest)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_from_a_folder_above_the_root_leads_below_it() {
        let root = Path::new("/users/me/project");
        for (path, expected) in [
            ("project/tools/x.sh", Some("tools/x.sh")),
            ("me/project/tools/x.sh", Some("tools/x.sh")),
            ("users//me/project//x", Some("x")),
            ("/users/me/project/x", Some("x")),
            ("../project/x", Some("x")),
            ("./../../me/project/x", Some("x")),
            ("project", None),
            ("project/", None),
            ("projects/x", None),
            ("me/x", None),
            ("tools/x.sh", None),
        ] {
            assert_eq!(path_from_above(root, path), expected, "{path}");
        }
        assert_eq!(path_from_above(Path::new("/"), "home/x"), None);
    }

    #[test]
    fn paths_resolve_against_the_working_directory() {
        let workspace = Workspace::new("/p").with_cwd("/p/sub");
        for (given, resolved) in [
            ("a", "/p/sub/a"),
            ("../a", "/p/a"),
            ("/x/./y/../z", "/x/z"),
            ("../../../..", "/"),
            ("", "/p/sub"),
        ] {
            assert_eq!(workspace.resolve(given), Path::new(resolved), "{given}");
        }
    }

    #[test]
    fn a_sibling_with_the_same_beginning_is_outside() {
        let workspace = Workspace::new("/p").with_root("/q");
        assert!(workspace.contains(Path::new("/p/a")) && workspace.contains(Path::new("/q")));
        assert!(!workspace.contains(Path::new("/pp/a")));
    }

    #[test]
    fn display_is_relative_inside_and_absolute_outside() {
        let workspace = Workspace::new("/p");
        assert_eq!(workspace.display(Path::new("/p/a/b")), "a/b");
        assert_eq!(workspace.display(Path::new("/p")), ".");
        assert_eq!(workspace.display(Path::new("/q/b")), "/q/b");
    }

    proptest! {
        #[test]
        fn a_resolved_path_is_absolute_and_clean(cwd in "(/[a-z.]{1,3}){0,3}", given in "/?((\\.\\.|\\.|[a-z]{1,2}|\\PC{1,3})/{1,2}){0,8}") {
            let workspace = Workspace::new("/p").with_cwd(format!("/{cwd}"));
            let resolved = workspace.resolve(&given);
            prop_assert!(resolved.is_absolute());
            prop_assert!(resolved.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_))), "{resolved:?}");
            prop_assert_eq!(&workspace.resolve(&resolved), &resolved);
        }

        #[test]
        fn a_displayed_path_resolves_to_the_same_path(given in "/?((\\.\\.|\\.|[a-z]{1,2})/){0,8}") {
            let workspace = Workspace::new("/p").with_cwd("/p/sub");
            let resolved = workspace.resolve(&given);
            prop_assert_eq!(workspace.resolve(workspace.display(&resolved)), resolved);
        }

        #[test]
        fn a_path_that_climbs_out_of_a_root_is_not_in_it(segments in prop::collection::vec("[a-z]{1,3}", 0..4), climbs in 1usize..4) {
            let climbing = [segments.iter().map(|part| format!("{part}/")).collect(), vec!["../".repeat(segments.len() + climbs), "x".to_owned()]].concat().concat();
            let workspace = Workspace::new("/p/root");
            prop_assert!(!workspace.contains(&workspace.resolve(climbing)));
        }
    }
}
