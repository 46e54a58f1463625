//! The places that the sandbox gives to commands, for tools that run outside of it.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use crate::workspace::Workspace;

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
    use super::*;

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
