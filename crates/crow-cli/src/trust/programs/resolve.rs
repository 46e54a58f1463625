//! Where a path leads in a project, link by link.

use std::{
    collections::VecDeque,
    path::{Component, Path, PathBuf},
};

use crow_fs::EntryMetadata;

/// How many links may lead from one to the next.
const MOST_LINKS: usize = 16;

/// A path of the project that was followed.
#[derive(Debug, Default)]
pub(super) struct PathTrail {
    /// The links on the way, and where each leads.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// Where it leads at last, if that is in the project and there.
    pub(super) end: Option<(PathBuf, EntryMetadata)>,
}

/// Follows a path that is absolute, or begins at `base`, as far as it stays below `root`. The system would find the same.
pub(super) fn follow(root: &Path, base: &Path, path: &Path) -> PathTrail {
    let mut followed = PathTrail::default();
    let whole = base.join(path);
    // The project may be named by another way to it.
    let other = || whole.canonicalize().ok().and_then(|path| begin(root, &path));
    let Some((mut here, mut left)) = begin(root, &whole).or_else(other) else { return followed };
    while let Some(part) = left.pop_front() {
        if part.as_os_str() == ".." {
            if here == root || !here.pop() {
                return followed;
            }
            continue;
        }
        let next = here.join(&part);
        let Ok(metadata) = crow_fs::metadata(&next) else { return followed };
        if !metadata.is_symlink() {
            here = next;
            continue;
        }
        let Ok(target) = crow_fs::read_link(&next) else { return followed };
        followed.links.push((next, target.clone()));
        if followed.links.len() > MOST_LINKS {
            return followed;
        }
        let Some((from, parts)) = begin(root, &here.join(target)) else { return followed };
        here = from;
        left = parts.into_iter().chain(left).collect();
    }
    followed.end = crow_fs::metadata(&here).ok().map(|metadata| (here, metadata));
    followed
}

/// Splits an absolute path into the root and the parts below it. None if it does not begin in the root.
fn begin(root: &Path, path: &Path) -> Option<(PathBuf, VecDeque<PathBuf>)> {
    let below = path.strip_prefix(root).ok()?;
    let parts = below.components().filter_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    Some((root.to_path_buf(), parts.collect()))
}
