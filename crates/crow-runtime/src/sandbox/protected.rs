//! Files of the workspace that start programs or rule over agents, and what is done when a command makes one.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crow_core::{
    capability::{Original, PutAside},
    workspace::PROTECTED,
};

use super::{
    git::{GitFolder, is_harmless_repository, settings_in},
    nested::NestedRepositories,
};

/// What makes git take a folder for a repository without a `.git`, settings included.
const BARE: [&str; 3] = ["HEAD", "objects", "refs"];
const GIT: &str = ".git";

/// What is protected in a workspace at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Protected {
    /// What is there: nothing in it may change.
    pub sealed: Vec<PathBuf>,
    /// What may change inside, but may not be put elsewhere: the folders of repositories.
    pub pinned: Vec<PathBuf>,
    /// Folders of repositories outside of the workspace that commits go to.
    pub outside: Vec<PathBuf>,
    /// Links to what is sealed: they can be replaced.
    links: Vec<(PathBuf, Stamp)>,
    /// What is not there and may not appear.
    absent: Vec<PathBuf>,
    /// Roots that are no bare repositories.
    not_bare: Vec<PathBuf>,
    /// Repositories inside of those of the roots.
    inner: Vec<PathBuf>,
}

/// Tells a link from one that took its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Self {
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Self { device: metadata.dev(), inode: metadata.ino(), changed }
    }
}

impl Protected {
    /// Looks at the roots of a workspace. `unprotected` are paths relative to a root.
    pub(super) fn find(
        roots: &[PathBuf],
        unprotected: &[PathBuf],
        nested: &NestedRepositories,
    ) -> Self {
        let mut found = Self::default();
        for root in roots {
            let is_open = |name: &Path| unprotected.iter().any(|open| name.starts_with(open));
            for name in PROTECTED.iter().filter(|name| !is_open(Path::new(name))) {
                found.look_at(root.join(name));
            }
            if is_open(Path::new(GIT)) {
                continue;
            }
            if fs::symlink_metadata(root.join(GIT)).is_err() {
                found.absent.push(root.join(GIT));
            }
            for folder in GitFolder::of(root) {
                found.look_at_repository(&folder, root, unprotected, nested);
            }
            if BARE.iter().any(|name| fs::symlink_metadata(root.join(name)).is_err()) {
                found.not_bare.push(root.clone());
            }
        }
        found
    }

    /// Returns all that may not change, also what is not there, but for repositories: a new one may be made, and is looked
    /// at afterwards.
    #[cfg(any(not(target_os = "linux"), test))]
    pub(super) fn unchangeable(&self) -> impl Iterator<Item = &PathBuf> {
        let links = self.links.iter().map(|(path, _)| path);
        let absent = self.absent.iter().filter(|path| !path.ends_with(GIT));
        self.sealed.iter().chain(links).chain(absent)
    }

    fn look_at(&mut self, path: PathBuf) {
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => {
                self.links.push((path.clone(), Stamp::of(&metadata)));
                self.sealed.extend(path.canonicalize());
            }
            Ok(_) => self.sealed.push(path),
            Err(_) => self.absent.push(path),
        }
    }

    fn look_at_repository(
        &mut self,
        folder: &GitFolder,
        root: &Path,
        unprotected: &[PathBuf],
        nested: &NestedRepositories,
    ) {
        let path = folder.path();
        if !path.starts_with(root) {
            self.outside.push(path.to_owned());
        }
        if let Some(file) = folder.file() {
            // Replaced, it would lead to another repository.
            self.look_at(file.to_owned());
        }
        self.pinned.push(path.to_owned());
        let is_open = |path: &Path| {
            let relative = path.strip_prefix(root).unwrap_or(path);
            unprotected.iter().any(|open| relative.starts_with(open))
        };
        self.inner = inner(root, folder, nested);
        let repositories = [path].into_iter().chain(self.inner.iter().map(PathBuf::as_path));
        let settings: Vec<_> = repositories.flat_map(settings_in).collect();
        for settings in settings {
            if !is_open(&settings) {
                self.look_at(settings);
            }
        }
        self.pinned.extend(self.inner.iter().filter(|inner| !inner.starts_with(path)).cloned());
    }

    /// Moves aside what appeared since, into `folder`, and returns it.
    pub(super) fn put_aside(
        &self,
        folder: &Path,
        roots: &[PathBuf],
        nested: &NestedRepositories,
    ) -> Vec<PutAside> {
        let appeared = self.absent.iter().filter(|path| is_new(path));
        let replaced = self.links.iter().filter(|(path, stamp)| {
            fs::symlink_metadata(path).map_or(true, |now| Stamp::of(&now) != *stamp)
        });
        let replaced =
            replaced.map(|(path, _)| path).filter(|path| fs::symlink_metadata(path).is_ok());
        let bare = self
            .not_bare
            .iter()
            .filter(|root| BARE.iter().all(|name| fs::symlink_metadata(root.join(name)).is_ok()));
        let bare: Vec<_> = bare.map(|root| root.join("HEAD")).collect();
        let repositories = roots.iter().flat_map(|root| {
            GitFolder::of(root).into_iter().flat_map(|folder| inner(root, &folder, nested))
        });
        let entered: Vec<_> = repositories
            .filter(|path| !self.inner.contains(path) && !is_harmless_repository(path))
            .collect();
        let paths = appeared.chain(replaced).chain(&bare).chain(&entered);
        paths
            .map(|path| PutAside {
                path: path.clone(),
                kept: aside(path, folder).ok(),
                original: Original::Absent,
            })
            .collect()
    }
}

/// Returns the repositories that git enters from another one.
fn inner(root: &Path, folder: &GitFolder, nested: &NestedRepositories) -> Vec<PathBuf> {
    let mut inner = folder.modules();
    let top = folder.path().parent().filter(|_| folder.path().ends_with(GIT)).unwrap_or(root);
    inner.extend(nested.of(top, folder.path()));
    inner
}

fn is_new(path: &Path) -> bool {
    let is_there = fs::symlink_metadata(path).is_ok();
    // A new repository starts nothing as long as it is as git makes it.
    is_there && !(path.file_name().is_some_and(|name| name == GIT) && is_harmless_repository(path))
}

/// Moves something to a new name in a folder; copies nothing.
pub(super) fn aside(path: &Path, folder: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut number = 0_u32;
    let target = loop {
        let target =
            folder.join(format!("{}{number}", format_args!("{}.", name.trim_start_matches('.'))));
        if fs::symlink_metadata(&target).is_err() {
            break target;
        }
        number += 1;
    };
    match fs::rename(path, &target) {
        Ok(()) => Ok(target),
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            // Beside it, under a name that nothing reads.
            let target = path.with_file_name(format!("{name}.crow-held-{number}"));
            fs::rename(path, &target).map(|()| target)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        _folder: tempfile::TempDir,
        root: PathBuf,
        held: PathBuf,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let base = folder.path().canonicalize().unwrap();
            let (root, held) = (base.join("project"), base.join("held"));
            fs::create_dir(&root).unwrap();
            Self { _folder: folder, root, held }
        }

        fn find(&self) -> Protected {
            Protected::find(std::slice::from_ref(&self.root), &[], &NestedRepositories::default())
        }
    }

    #[test]
    fn what_appears_is_moved_aside_and_what_was_there_is_sealed() {
        let place = Place::new();
        fs::create_dir(place.root.join(".vscode")).unwrap();
        let before = place.find();
        assert_eq!(before.sealed, [place.root.join(".vscode")]);
        fs::create_dir_all(place.root.join(".github/workflows")).unwrap();
        fs::write(place.root.join("ordinary"), "").unwrap();
        let aside = before.put_aside(
            &place.held,
            std::slice::from_ref(&place.root),
            &NestedRepositories::default(),
        );
        let [PutAside { path, kept: Some(kept), .. }] = aside.as_slice() else {
            panic!("{aside:?}")
        };
        assert_eq!(*path, place.root.join(".github"));
        assert!(kept.join("workflows").is_dir() && !path.exists());
        assert_eq!(
            place.find().put_aside(
                &place.held,
                std::slice::from_ref(&place.root),
                &NestedRepositories::default()
            ),
            []
        );
    }

    #[test]
    fn a_link_that_was_replaced_is_moved_aside() {
        let place = Place::new();
        fs::create_dir(place.root.join("settings")).unwrap();
        std::os::unix::fs::symlink("settings", place.root.join(".claude")).unwrap();
        let before = place.find();
        assert_eq!(before.sealed, [place.root.join("settings")]);
        assert_eq!(
            before.put_aside(
                &place.held,
                std::slice::from_ref(&place.root),
                &NestedRepositories::default()
            ),
            []
        );
        fs::remove_file(place.root.join(".claude")).unwrap();
        fs::create_dir(place.root.join(".claude")).unwrap();
        assert_eq!(
            before
                .put_aside(
                    &place.held,
                    std::slice::from_ref(&place.root),
                    &NestedRepositories::default()
                )
                .len(),
            1
        );
    }

    #[test]
    fn a_folder_that_became_a_bare_repository_is_none_any_more() {
        let place = Place::new();
        let before = place.find();
        fs::write(place.root.join("HEAD"), "ref: refs/heads/main").unwrap();
        fs::create_dir(place.root.join("objects")).unwrap();
        assert_eq!(
            before.put_aside(
                &place.held,
                std::slice::from_ref(&place.root),
                &NestedRepositories::default()
            ),
            []
        );
        fs::create_dir(place.root.join("refs")).unwrap();
        assert_eq!(
            before
                .put_aside(
                    &place.held,
                    std::slice::from_ref(&place.root),
                    &NestedRepositories::default()
                )
                .len(),
            1
        );
        assert!(!place.root.join("HEAD").exists());
    }

    #[test]
    fn what_the_user_allowed_is_left_alone() {
        let place = Place::new();
        let open = [PathBuf::from(".github"), PathBuf::from(".git")];
        let before = Protected::find(
            std::slice::from_ref(&place.root),
            &open,
            &NestedRepositories::default(),
        );
        fs::create_dir(place.root.join(".github")).unwrap();
        fs::create_dir_all(place.root.join(".git/hooks")).unwrap();
        assert_eq!(
            before.put_aside(
                &place.held,
                std::slice::from_ref(&place.root),
                &NestedRepositories::default()
            ),
            []
        );
    }
}
