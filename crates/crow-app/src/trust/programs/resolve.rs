//! Resolving a path within a project, recording each link on the way.
//!
//! The path is walked component by component in a queue: a link puts the components of its target at the front. The
//! walk ends when it would leave the root, so `end` is always inside the project.

use std::{
    collections::VecDeque,
    path::{Component, Path, PathBuf},
};

use crow_fs::EntryMetadata;

/// Maximum number of links on the way.
const MOST_LINKS: usize = 16;

/// Result of following a path.
#[derive(Debug, Default)]
pub(super) struct PathTrail {
    /// Links on the way, and their targets.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// Final path and its metadata, if it exists in the project.
    pub(super) end: Option<(PathBuf, EntryMetadata)>,
}

/// Follows a path that is absolute, or relative to `base`, as far as it stays below `root`. Finds the same file as
/// the system.
pub(super) fn follow(root: &Path, base: &Path, path: &Path) -> PathTrail {
    let mut trail = PathTrail::default();
    let joined = base.join(path);
    // The path may name the project in another way, for example through a link above the root.
    let other = || joined.canonicalize().ok().and_then(|path| begin(root, &path));
    let Some((mut here, mut rest)) = begin(root, &joined).or_else(other) else { return trail };
    while let Some(part) = rest.pop_front() {
        if part.as_os_str() == ".." {
            if here != root {
                here.pop();
                continue;
            }
            // The path leaves the project; it may come back: `../project/tools/run`.
            let resolved = joined.canonicalize().ok().filter(|path| path.starts_with(root));
            let Some(resolved) = resolved else { return trail };
            let links = std::mem::take(&mut trail.links);
            let mut rest = follow(root, root, &resolved);
            rest.links.splice(..0, links);
            return rest;
        }
        let next = here.join(&part);
        let Ok(metadata) = crow_fs::metadata(&next) else { return trail };
        if !metadata.is_symlink() {
            here = next;
            continue;
        }
        let Ok(target) = crow_fs::read_link(&next) else { return trail };
        trail.links.push((next, target.clone()));
        if trail.links.len() > MOST_LINKS {
            return trail;
        }
        // A link: start again at the root, with the parts of its target before the remaining ones.
        let Some((from, parts)) = begin(root, &here.join(target)) else { return trail };
        here = from;
        rest = parts.into_iter().chain(rest).collect();
    }
    trail.end = crow_fs::metadata(&here).ok().map(|metadata| (here, metadata));
    trail
}

/// Splits an absolute path into the root and the components below it. Returns `None` if it is not below the root.
fn begin(root: &Path, path: &Path) -> Option<(PathBuf, VecDeque<PathBuf>)> {
    let below = path.strip_prefix(root).ok()?;
    let parts = below.components().filter_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    Some((root.to_path_buf(), parts.collect()))
}
