//! Links that the system follows on the way to the end of a path.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs,
    path::{Component, Path, PathBuf},
};

/// Maximum number of links on the way, as on Linux.
const MOST_LINKS: usize = 40;

/// The links on the way of a path, and where it leads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkTrail {
    /// Each link that is followed, by a path without links before its last name.
    pub links: Vec<PathBuf>,
    /// The path without links. What is there may be missing: then this is where it would be created.
    pub end: PathBuf,
}

impl LinkTrail {
    /// Follows an absolute path. Returns `None` if there are more links than the system would follow.
    ///
    /// The result describes one moment: it tells what to watch, not what may be opened.
    pub fn follow(path: &Path) -> Option<Self> {
        let mut trail = Self::default();
        let mut rest: VecDeque<OsString> = names(path).collect();
        trail.end.push("/");
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                trail.end.pop();
                continue;
            }
            let next = trail.end.join(&name);
            // Anything else than a link, and what cannot be looked at, is a name like any other.
            let Ok(target) = fs::read_link(&next) else {
                trail.end = next;
                continue;
            };
            trail.links.push(next);
            if trail.links.len() > MOST_LINKS {
                return None;
            }
            if target.is_absolute() {
                trail.end = PathBuf::from("/");
            }
            rest = names(&target).chain(rest).collect();
        }
        Some(trail)
    }
}

/// Returns the names of a path, with `..` but without `.`.
fn names(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn each_link_on_the_way_is_found_also_if_the_end_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("real")).unwrap();
        symlink("real", base.join("folder")).unwrap();
        symlink("folder/second", base.join("first")).unwrap();
        symlink(base.join("folder/./../missing/file"), base.join("real/second")).unwrap();
        symlink("loop", base.join("loop")).unwrap();
        let trail = LinkTrail::follow(&base.join("first")).unwrap();
        let links = ["first", "folder", "real/second", "folder"].map(|name| base.join(name));
        assert_eq!(trail, LinkTrail { links: links.into(), end: base.join("missing/file") });
        assert_eq!(LinkTrail::follow(&base.join("loop")), None);
        assert_eq!(
            LinkTrail::follow(&base.join("real")).unwrap().links,
            [""; 0].map(PathBuf::from)
        );
    }
}
