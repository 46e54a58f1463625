//! Cache of file system queries for one pass (one collection of the inventory).
//!
//! A repository is reached by several routes, which ask for the same settings, directories and links. So a
//! pass opens each directory once and queries each path once. A change during the pass may be seen or not,
//! as without the cache; the next pass sees it, since it starts with an empty cache.

use std::{
    cell::RefCell,
    collections::HashMap,
    io,
    path::{Component, Path, PathBuf},
    rc::Rc,
};

use crow_fs::{Directory, EntryKind, EntryMetadata, EntryName};

use super::pass_record::{ListedNames, PassObservations};

/// Maximum length of a chain of links.
const LINKS: usize = 8;
/// Maximum number of directories that are held open at once.
const HELD_DIRECTORIES: usize = 256;

/// Cached queries of one pass.
#[derive(Debug, Default)]
pub(super) struct PassView {
    directories: RefCell<HashMap<PathBuf, SyscallResult<Rc<Directory>>>>,
    metadata: RefCell<HashMap<PathBuf, SyscallResult<EntryMetadata>>>,
    names: RefCell<HashMap<PathBuf, Rc<[EntryName]>>>,
    resolved: RefCell<HashMap<PathBuf, Option<PathBuf>>>,
    observations: RefCell<PassObservations>,
}

/// Result of a system call: a value, or an error number.
type SyscallResult<T> = Result<T, Option<i32>>;

/// Restores an error from its cached number.
fn error((number, text): (Option<i32>, &str)) -> io::Error {
    number.map_or_else(|| io::Error::other(text.to_owned()), io::Error::from_raw_os_error)
}

impl PassView {
    /// Returns everything that was looked at.
    pub(super) fn into_observations(self) -> PassObservations {
        self.observations.into_inner()
    }

    /// Records that the result depends on what is at a path.
    pub(super) fn observe(&self, path: &Path) {
        self.observations.borrow_mut().entry(path.to_owned());
    }

    /// Records the names that were seen in a directory.
    pub(super) fn observe_names(&self, folder: &Path, names: ListedNames) {
        self.observations.borrow_mut().names(folder.to_owned(), names);
    }

    /// Opens a directory without following links.
    pub(super) fn directory(&self, path: &Path) -> io::Result<Rc<Directory>> {
        let known = self.directories.borrow().get(path).cloned();
        if let Some(known) = known {
            return known.map_err(|number| error((number, "it could not be opened")));
        }
        self.observe(path);
        let opened = Directory::open(path).map(Rc::new);
        let answer = opened.as_ref().map(Rc::clone).map_err(io::Error::raw_os_error);
        let mut directories = self.directories.borrow_mut();
        if answer.is_err() || directories.len() < HELD_DIRECTORIES {
            directories.insert(path.to_owned(), answer);
        }
        opened
    }

    /// Opens the directory that contains an entry.
    pub(super) fn parent(&self, path: &Path) -> io::Result<(Rc<Directory>, EntryName)> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Ok((self.directory(parent)?, EntryName::new(name)?))
    }

    /// Returns the metadata of the entry at a path. Follows no links.
    pub(super) fn metadata(&self, path: &Path) -> io::Result<EntryMetadata> {
        let known = self.metadata.borrow().get(path).copied();
        if let Some(known) = known {
            return known.map_err(|number| error((number, "it could not be looked at")));
        }
        self.observe(path);
        let found = self.parent(path).and_then(|(directory, name)| directory.metadata(&name));
        let answer = found.as_ref().copied().map_err(io::Error::raw_os_error);
        self.metadata.borrow_mut().insert(path.to_owned(), answer);
        found
    }

    /// Returns true if something exists at a path.
    pub(super) fn is_there(&self, path: &Path) -> bool {
        self.metadata(path).is_ok()
    }

    /// Returns the names in a directory; an empty list if it cannot be read.
    pub(super) fn names_in(&self, folder: &Path) -> Rc<[EntryName]> {
        if let Some(names) = self.names.borrow().get(folder) {
            return Rc::clone(names);
        }
        let names = self.directory(folder).and_then(|directory| directory.names());
        let names = names.unwrap_or_default();
        self.observe_names(folder, ListedNames::All(names.clone()));
        let names: Rc<[EntryName]> = names.into();
        self.names.borrow_mut().insert(folder.to_owned(), Rc::clone(&names));
        names
    }

    /// Returns the links in a directory, and the directories if `with_directories` is true; nothing if it cannot be
    /// read.
    pub(super) fn links_in(
        &self,
        folder: &Path,
        with_directories: bool,
    ) -> Vec<(EntryName, EntryKind)> {
        let entries = self.directory(folder).and_then(|directory| directory.entries(usize::MAX));
        let mut entries = entries.unwrap_or_default();
        entries.retain(|(_, kind)| match kind {
            EntryKind::Symlink => true,
            EntryKind::Directory => with_directories,
            EntryKind::File | EntryKind::Special => false,
        });
        let names = entries.iter().map(|(name, _)| name.clone()).collect();
        let listed = if with_directories {
            ListedNames::LinksAndDirectories(names)
        } else {
            ListedNames::Links(names)
        };
        self.observe_names(folder, listed);
        entries
    }

    /// Resolves all links of an existing path. The result is only a hint where to look: the entries
    /// themselves are examined without following links.
    pub(super) fn resolve(&self, path: &Path) -> Option<PathBuf> {
        if let Some(known) = self.resolved.borrow().get(path) {
            return known.clone();
        }
        let real = self.resolve_now(path);
        self.resolved.borrow_mut().insert(path.to_owned(), real.clone());
        real
    }

    /// Returns the final target of a link, as far as it exists.
    pub(super) fn resolve_link(&self, path: &Path) -> Option<PathBuf> {
        let target = resolve_link(path);
        self.observations.borrow_mut().link(path.to_owned(), target.clone());
        target
    }

    /// Returns the final target of a link that leads to nothing. Names that do not exist are no links: the record
    /// has them as missing, and needs not resolve them again.
    fn dangling(&self, path: &Path) -> Option<PathBuf> {
        match self.metadata(path) {
            Ok(found) if found.kind != EntryKind::Symlink => None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Ok(_) | Err(_) => self.resolve_link(path),
        }
    }

    fn resolve_now(&self, path: &Path) -> Option<PathBuf> {
        let Some(plain) = self.without_dots(path) else { return self.canonicalize(path) };
        match self.metadata(&plain) {
            Ok(found) if found.kind != EntryKind::Symlink => Some(plain),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Ok(_) | Err(_) => self.canonicalize(path),
        }
    }

    fn canonicalize(&self, path: &Path) -> Option<PathBuf> {
        let real = path.canonicalize().ok();
        self.observations.borrow_mut().real_path(path.to_owned(), real.clone());
        real
    }

    /// Returns a path without `.` and `..`, if no link changes its meaning; else `None`. Resolving links
    /// costs a system call for each name, so this is tried first.
    fn without_dots(&self, path: &Path) -> Option<PathBuf> {
        let mut plain = PathBuf::new();
        for part in path.components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => {
                    self.directory(&plain).ok()?;
                    plain.pop();
                }
                Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                    plain.push(part);
                }
            }
        }
        Some(plain)
    }

    /// Resolves a path that may not exist: its existing part is resolved name by name.
    pub(super) fn physical(&self, path: &Path) -> PathBuf {
        if let Some(real) = self.resolve(path) {
            return real;
        }
        // Fast path: often only the last name is missing.
        if let Some(plain) = self.without_dots(path)
            && matches!(self.metadata(&plain), Err(error) if error.kind() == io::ErrorKind::NotFound)
            && plain.parent().is_some_and(|above| self.directory(above).is_ok())
        {
            return plain;
        }
        let mut real = PathBuf::new();
        for part in path.components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => {
                    real.pop();
                }
                Component::Prefix(_) | Component::RootDir => real.push(part),
                Component::Normal(_) => {
                    real.push(part);
                    if let Some(found) = self.resolve(&real).or_else(|| self.dangling(&real)) {
                        real = found;
                    }
                }
            }
        }
        real
    }
}

/// Returns the final target of a link, as far as it exists. Reads nothing but links.
pub(super) fn resolve_link(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        if let Ok(real) = path.canonicalize() {
            return Some(real);
        }
        // The target does not exist yet: the path where it would be created counts.
        let target = crow_fs::read_link(&path).ok()?;
        let next = path.parent()?.join(target);
        let (parent, name) = (next.parent()?.canonicalize().ok()?, next.file_name()?.to_owned());
        path = parent.join(name);
        if crow_fs::metadata(&path).is_err() {
            return Some(path);
        }
    }
    None
}
