//! The places that the sandbox gives to commands, for tools that act outside of it.

use std::path::{Path, PathBuf};

use crate::workspace::Workspace;

/// What sandboxed commands can read and change beside the workspace.
///
/// File tools run outside of the sandbox, so nothing but the policy keeps them to the same places. The value is made from
/// the configuration that the sandbox itself gets, also where commands run without one: what file tools may do does not
/// depend on whether a sandbox is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxPlaces {
    /// Folders and files that can be changed.
    pub writable: Vec<PathBuf>,
    /// Folders and files that file tools may read in every mode: the session's own output.
    pub readable: Vec<PathBuf>,
    /// Folders and files that commands can read although a folder around them is hidden.
    pub visible: Vec<PathBuf>,
    /// Folders and files that cannot be read: keys, the agent's own files, what other programs keep for a while.
    pub hidden: Vec<PathBuf>,
    /// Files that cannot be changed, beside those that are protected by their names: what a trusted configuration starts.
    pub protected: Vec<PathBuf>,
    /// Protected paths, relative to a root of the workspace, that can be changed all the same.
    pub unprotected: Vec<PathBuf>,
}

/// Where a path lies, seen from the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Region {
    /// In a root of the workspace.
    Workspace,
    /// In a place beside it that can be changed.
    Writable,
    /// In a place that may be read in every mode.
    Readable,
    /// In a place that commands cannot see.
    Hidden,
    /// Anywhere else: commands can read it.
    Elsewhere,
}

impl SandboxPlaces {
    /// Adds what other places have and these do not.
    pub fn add(&mut self, other: Self) {
        for (own, further) in [
            (&mut self.writable, other.writable),
            (&mut self.readable, other.readable),
            (&mut self.visible, other.visible),
            (&mut self.hidden, other.hidden),
            (&mut self.protected, other.protected),
            (&mut self.unprotected, other.unprotected),
        ] {
            for path in further {
                if !own.contains(&path) {
                    own.push(path);
                }
            }
        }
    }

    /// Adds to each absolute path the one that it leads to. Calls are decided upon by where their paths lead, so a hidden
    /// `~/.ssh` must be known by its real name, too.
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

    /// Returns whether commands cannot see what lies at an absolute path without `.` and `..`.
    pub fn hides(&self, path: &Path, workspace: &Workspace) -> bool {
        self.region(path, workspace) == Region::Hidden
    }

    /// Returns where an absolute path without `.` and `..` lies.
    ///
    /// Places lie in each other: a session's output in the agent's hidden folder, a hidden folder in the workspace. The
    /// innermost counts, as it does where the sandbox mounts one over the other; of two that are the same, the hidden one.
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

    /// Returns whether the user took the protection from a path in the workspace.
    pub(super) fn is_unprotected(&self, path: &Path, workspace: &Workspace) -> bool {
        let below = workspace.roots().iter().filter_map(|root| path.strip_prefix(root).ok());
        below.into_iter().any(|below| self.unprotected.iter().any(|free| below.starts_with(free)))
    }
}

/// Returns how deep the innermost of these places is that a path lies in.
fn innermost(places: &[PathBuf], path: &Path) -> Option<usize> {
    let around = places.iter().filter(|place| path.starts_with(place));
    around.map(|place| place.components().count()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_place_counts_and_of_two_the_hidden_one() {
        let places = SandboxPlaces {
            writable: vec!["/cache".into()],
            readable: vec!["/users/u/.data/crow/scratch".into()],
            visible: vec!["/proc/cpuinfo".into()],
            hidden: vec![
                "/users/u/.data/crow".into(),
                "/p/notes".into(),
                "/users/u/.ssh".into(),
                "/proc".into(),
            ],
            ..SandboxPlaces::default()
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
    fn a_place_is_known_by_its_real_name_too() {
        let places =
            SandboxPlaces { hidden: vec!["/users/u/.ssh".into()], ..SandboxPlaces::default() };
        let real = |path: &Path| Path::new("/data").join(path.strip_prefix("/users").unwrap());
        let places = places.resolved(real);
        let workspace = Workspace::new("/p");
        assert!(places.hides(Path::new("/data/u/.ssh/id"), &workspace));
        assert!(places.hides(Path::new("/users/u/.ssh/id"), &workspace));
    }
}
