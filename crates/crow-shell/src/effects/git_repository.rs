//! The repositories that git may find from a folder.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

/// Maximum size in bytes of settings that are read.
pub(super) const LARGEST_SETTINGS: u64 = 1 << 20;

/// The folders of a repository, as seen from one working tree. The paths may contain links and `..`.
#[derive(Debug, Clone)]
pub(super) struct RepositoryFolders {
    /// The folder in which git found it: the top of the working tree, or the bare repository itself.
    pub worktree: PathBuf,
    /// Files of this working tree: `HEAD`, `index`.
    pub own: PathBuf,
    /// Files shared by all working trees: `config`, `objects`.
    pub common: PathBuf,
}

impl RepositoryFolders {
    fn new(worktree: &Path, own: PathBuf) -> Self {
        let common = pointed_to(&own.join("commondir"), "", &own).unwrap_or_else(|| own.clone());
        Self { worktree: worktree.to_owned(), own, common }
    }

    /// Returns whether git takes this for a repository and looks no further.
    fn is_complete(&self) -> bool {
        crow_fs::metadata_through_links(&self.own.join("HEAD")).is_ok()
            && ["objects", "refs"].iter().all(|name| self.common.join(name).is_dir())
    }
}

/// Returns the repositories that git may find from a folder, from the innermost to the first complete one: git passes
/// over a `.git` folder without these parts. Blocks.
pub(super) fn repositories(folder: &Path) -> Vec<RepositoryFolders> {
    let mut found = Vec::new();
    for above in folder.ancestors() {
        let entry = above.join(".git");
        if crow_fs::metadata_through_links(&entry).is_ok() {
            // Git follows a link in its place.
            if entry.is_dir() {
                found.push(RepositoryFolders::new(above, entry));
            } else if let Some(own) = pointed_to(&entry, "gitdir:", above) {
                found.push(RepositoryFolders::new(above, own));
                // Git ends here even if nothing is there.
                break;
            }
        }
        let has = |name: &str| above.join(name).exists();
        if has("HEAD") && (has("commondir") || has("objects") && has("refs")) {
            found.push(RepositoryFolders::new(above, above.to_owned()));
        }
        if found.iter().any(RepositoryFolders::is_complete) {
            break;
        }
    }
    found
}

/// Returns the path in a file of git, which may be relative to `base`.
fn pointed_to(file: &Path, prefix: &str, base: &Path) -> Option<PathBuf> {
    let bytes = read(file, LARGEST_SETTINGS)??;
    let path = bytes.strip_prefix(prefix.as_bytes())?.trim_ascii();
    Some(base.join(OsStr::from_bytes(path)))
}

/// Returns the bytes of a file, the inner `None` if it is too large or cannot be read, and the outer one if there is none.
#[expect(clippy::option_option, reason = "a missing file differs from one that is too large")]
pub(super) fn read(file: &Path, largest: u64) -> Option<Option<Vec<u8>>> {
    // Git follows links here, and refuses anything that is not a file.
    let file = crow_fs::canonicalize(file).ok()?;
    Some(crow_fs::read_bounded(&file, largest).ok())
}

/// Returns the links among the entries of a folder.
pub(super) fn links_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    links.map(|entry| entry.path()).collect()
}
