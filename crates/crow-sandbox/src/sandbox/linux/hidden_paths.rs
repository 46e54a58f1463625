//! Cache of the hidden paths that exist, recomputed when a directory above them has changed.
//!
//! Most of the hundreds of hidden paths do not exist, and checking each of them before each command would
//! cost more than the command. Whether a path exists can only change together with its nearest existing
//! ancestor directory: creating, removing, renaming or replacing an entry changes the directory's inode
//! times, which no program can set. So only the few ancestor directories are checked, and the paths
//! themselves only when one of these has changed. Paths that are symbolic links are resolved each time:
//! their targets lie elsewhere.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use crow_fs::DirectoryStamp;

/// Hidden paths and the cached result of the last look-up.
#[derive(Debug)]
pub(super) struct HiddenPaths {
    paths: Vec<PathBuf>,
    found: Mutex<Option<Arc<FoundHiddenPaths>>>,
}

/// Hidden path that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HiddenPath {
    /// Index in the configuration.
    pub number: usize,
    /// Resolved path, without links.
    pub path: PathBuf,
    pub is_directory: bool,
}

#[derive(Debug)]
struct FoundHiddenPaths {
    /// Nearest existing ancestors of the paths, stamped before the paths were looked at.
    around: BTreeMap<PathBuf, DirectoryStamp>,
    places: Vec<HiddenPath>,
    /// Indices of paths that are symbolic links.
    links: Vec<usize>,
    /// True if every later change is certain to give the directories another time stamp.
    is_settled: bool,
}

impl HiddenPaths {
    pub(super) fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths, found: Mutex::default() }
    }

    /// Returns all configured paths, including those that do not exist.
    pub(super) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Returns the paths that exist, resolved.
    pub(super) fn present(&self) -> Vec<HiddenPath> {
        let mut known = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match &*known {
            Some(found) if found.is_valid() => Arc::clone(found),
            Some(_) | None => Arc::new(self.find()),
        };
        *known = Some(Arc::clone(&found));
        drop(known);
        let behind_links = found.links.iter().filter_map(|number| self.resolve(*number));
        found.places.iter().cloned().chain(behind_links).collect()
    }

    fn find(&self) -> FoundHiddenPaths {
        let mut around = BTreeMap::new();
        let (mut places, mut links, mut is_all_settled) = (Vec::new(), Vec::new(), true);
        for (number, path) in self.paths.iter().enumerate() {
            let nearest = path.ancestors().skip(1).find_map(|above| {
                let known = around.get(above).copied();
                known.or_else(|| DirectoryStamp::of_path(above)).map(|stamp| (above, stamp))
            });
            // A relative path, or the root itself, has no such ancestor and is resolved each time.
            let Some((above, stamp)) = nearest else {
                links.push(number);
                continue;
            };
            is_all_settled &= stamp.is_settled();
            around.insert(above.to_owned(), stamp);
            match fs::symlink_metadata(path) {
                Ok(found) if found.is_symlink() => links.push(number),
                Ok(_) => places.extend(self.resolve(number)),
                Err(_) => {}
            }
        }
        FoundHiddenPaths { around, places, links, is_settled: is_all_settled }
    }

    fn resolve(&self, number: usize) -> Option<HiddenPath> {
        let path = crow_fs::canonicalize(self.paths.get(number)?).ok()?;
        let is_directory = path.is_dir();
        Some(HiddenPath { number, path, is_directory })
    }
}

impl FoundHiddenPaths {
    /// Returns true if no ancestor directory has changed.
    fn is_valid(&self) -> bool {
        self.is_settled
            && self.around.iter().all(|(path, stamp)| DirectoryStamp::of_path(path) == Some(*stamp))
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, path::Path};

    use super::*;

    /// Returns the names of the paths that exist.
    fn present(hidden: &HiddenPaths, home: &Path) -> Vec<String> {
        let home = home.canonicalize().unwrap();
        let mut names: Vec<String> = hidden
            .present()
            .iter()
            .map(|place| {
                let kind = if place.is_directory { "/" } else { "" };
                format!("{}{kind}", place.path.strip_prefix(&home).unwrap().display())
            })
            .collect();
        names.sort();
        names
    }

    /// Waits until the next change is certain to get another time stamp.
    fn settle(path: &Path) {
        while !DirectoryStamp::of_path(path).is_none_or(|stamp| stamp.is_settled()) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn created_removed_and_replaced_paths_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        fs::create_dir_all(home.join(".config/app")).unwrap();
        fs::write(home.join(".netrc"), "key").unwrap();
        let names = [".netrc", ".ssh", ".config/op/keys", ".config/app", "missing/deep/key"];
        let hidden = HiddenPaths::new(names.map(|name| home.join(name)).to_vec());
        let mut seen = Vec::new();
        let mut look = |change: &dyn Fn()| {
            for path in
                [&home, &home.join(".config"), &home.join("missing"), &home.join(".config/op")]
            {
                settle(path);
            }
            // Twice: the cached result must be the same.
            present(&hidden, &home);
            change();
            let now = present(&hidden, &home).join(" ");
            assert_eq!(present(&hidden, &home).join(" "), now);
            seen.push(now);
        };
        look(&|| {});
        look(&|| fs::create_dir_all(home.join(".ssh")).unwrap());
        look(&|| fs::create_dir_all(home.join(".config/op/keys")).unwrap());
        look(&|| fs::remove_file(home.join(".netrc")).unwrap());
        look(&|| fs::create_dir(home.join(".netrc")).unwrap());
        look(&|| fs::create_dir_all(home.join("missing/deep")).unwrap());
        look(&|| fs::write(home.join("missing/deep/key"), "x").unwrap());
        look(&|| fs::rename(home.join(".config"), home.join("moved")).unwrap());
        look(&|| symlink("moved", home.join(".config")).unwrap());
        look(&|| fs::rename(home.join("moved/app"), home.join("moved/other")).unwrap());
        look(&|| {
            fs::remove_dir(home.join(".ssh")).unwrap();
            symlink("moved/other", home.join(".ssh")).unwrap();
        });
        look(&|| fs::remove_dir(home.join("moved/other")).unwrap());
        assert_eq!(
            seen,
            [
                ".config/app/ .netrc",
                ".config/app/ .netrc .ssh/",
                ".config/app/ .config/op/keys/ .netrc .ssh/",
                ".config/app/ .config/op/keys/ .ssh/",
                ".config/app/ .config/op/keys/ .netrc/ .ssh/",
                ".config/app/ .config/op/keys/ .netrc/ .ssh/",
                ".config/app/ .config/op/keys/ .netrc/ .ssh/ missing/deep/key",
                ".netrc/ .ssh/ missing/deep/key",
                ".netrc/ .ssh/ missing/deep/key moved/app/ moved/op/keys/",
                ".netrc/ .ssh/ missing/deep/key moved/op/keys/",
                ".netrc/ missing/deep/key moved/op/keys/ moved/other/",
                ".netrc/ missing/deep/key moved/op/keys/",
            ]
        );
    }

    #[test]
    fn a_change_right_after_a_look_up_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let hidden = HiddenPaths::new(vec![folder.path().join("key")]);
        for _ in 0..200 {
            fs::write(folder.path().join("key"), "").unwrap();
            assert_eq!(hidden.present().len(), 1);
            fs::remove_file(folder.path().join("key")).unwrap();
            assert_eq!(hidden.present().len(), 0);
        }
    }
}
