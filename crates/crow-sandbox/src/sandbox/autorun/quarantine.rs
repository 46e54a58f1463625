//! Moves files aside and restores previous ones, by directory descriptors.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use crow_core::capability::{OriginalState, QuarantinedFile};
use crow_fs::{Directory, EntryName, NewFile, RenameMode};

use super::entry_state::{EntryState, FileContent};

/// Number of suffixes that are tried for a free name.
const NUMBERS: u32 = 10_000;

/// Number of bytes that are kept of a name: file systems allow 255 bytes, and some count two per character.
const NAME_BYTES: usize = 100;

/// Folder for files that were moved aside.
#[derive(Debug, Clone)]
pub(super) struct Quarantine {
    folder: PathBuf,
}

impl Quarantine {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Moves a file or directory aside.
    pub(super) fn move_aside(&self, path: &Path) -> QuarantinedFile {
        let kept = self.take(path).inspect_err(|error| {
            tracing::warn!(path = %path.display(), %error, "a protected file cannot be moved aside");
        });
        let (path, original, during) = (path.to_owned(), OriginalState::Absent, Vec::new());
        QuarantinedFile { path, moved_to: kept.ok(), original, running_commands: during }
    }

    /// Restores a previous state, and moves aside what is there now.
    pub(super) fn put_back(&self, path: &Path, before: &EntryState) -> QuarantinedFile {
        if *before == EntryState::Absent {
            return self.move_aside(path);
        }
        let (kept, result) = self.replace(path, before);
        if let Err(error) = &result {
            tracing::warn!(path = %path.display(), %error, "a protected file cannot be put back");
        }
        let original = if result.is_ok() { OriginalState::Restored } else { OriginalState::Lost };
        QuarantinedFile {
            path: path.to_owned(),
            moved_to: kept,
            original,
            running_commands: Vec::new(),
        }
    }

    /// Replaces a file by its content without programs.
    pub(super) fn disarm(&self, path: &Path, rest: &EntryState) -> QuarantinedFile {
        let (original, outcome) = (OriginalState::Disarmed, self.put_back(path, rest));
        match outcome.original {
            OriginalState::Restored => QuarantinedFile { original, ..outcome },
            OriginalState::Absent | OriginalState::Disarmed | OriginalState::Lost => outcome,
        }
    }

    /// Returns true if the kept file is in the quarantine folder, which no command can reach, and not next
    /// to its original place.
    pub(super) fn contains(&self, kept: &Path) -> bool {
        kept.parent() == Some(&self.folder)
    }

    fn replace(&self, path: &Path, before: &EntryState) -> (Option<PathBuf>, io::Result<()>) {
        let (directory, name) = match Directory::open_parent(path) {
            Ok(parent) => parent,
            Err(error) => return (None, Err(error)),
        };
        if let Some(mode) = only_mode_differs(&directory, &name, before) {
            return (None, directory.set_mode(&name, mode));
        }
        let kept = match self.take(path) {
            Ok(kept) => Some(kept),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return (None, Err(error)),
        };
        let made = match make(&directory, &name, before) {
            // Another session put it back at the same time.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                match only_mode_differs(&directory, &name, before) {
                    Some(mode) => directory.set_mode(&name, mode),
                    None => Err(error),
                }
            }
            made => made,
        };
        (kept, made)
    }

    /// Moves an entry into the folder; if that is on another file system, renames it in place, to a name
    /// that no program reads.
    fn take(&self, path: &Path) -> io::Result<PathBuf> {
        let (directory, name) = Directory::open_parent(path)?;
        let mut text = name.as_os_str().to_string_lossy().into_owned();
        // Leaves room for a number, so that the name is not too long for a file system.
        text.truncate(text.floor_char_boundary(NAME_BYTES));
        let folder = crow_fs::create_directories(&self.folder, 0o700)?;
        let inside = |number| format!("{}.{number}", text.trim_start_matches('.'));
        match rename_to_free_name(&directory, &name, &folder, inside) {
            Ok(taken) => Ok(self.folder.join(taken)),
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let beside = |number| format!("{text}.crow-held-{number}");
                let taken = rename_to_free_name(&directory, &name, &directory, beside)?;
                Ok(path.with_file_name(taken))
            }
            Err(error) => Err(error),
        }
    }
}

/// Moves a kept file back. With [`RenameMode::Exchange`] it is exchanged with what is at the path.
pub(super) fn restore(kept: &Path, path: &Path, mode: RenameMode) -> io::Result<()> {
    let (folder, held) = Directory::open_parent(kept)?;
    let (directory, name) = Directory::open_parent(path)?;
    folder.rename(&held, &directory, &name, mode)
}

fn rename_to_free_name(
    source: &Directory,
    name: &EntryName,
    target: &Directory,
    free: impl Fn(u32) -> String,
) -> io::Result<OsString> {
    for number in 0..NUMBERS {
        let new = EntryName::new(free(number))?;
        let renamed = match source.rename(name, target, &new, RenameMode::Keep) {
            // The file system does not support renaming without replacing.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => match target.metadata(&new)
            {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    source.rename(name, target, &new, RenameMode::Replace)
                }
                Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                Err(error) => Err(error),
            },
            renamed => renamed,
        };
        match renamed {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            renamed => return renamed.map(|()| new.as_os_str().to_owned()),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "no free name"))
}

/// Returns the mode to set if nothing else differs.
fn only_mode_differs(directory: &Directory, name: &EntryName, before: &EntryState) -> Option<u32> {
    let found = directory.metadata(name).ok()?;
    match before {
        EntryState::Directory { mode } if found.is_directory() => Some(*mode),
        EntryState::File { mode, content: FileContent::Whole(bytes) } if found.is_file() => {
            let file = directory.open_file(name).ok()?;
            let now = crow_fs::read_file(file, bytes.len() as u64).ok()?;
            (now == **bytes).then_some(*mode)
        }
        EntryState::Directory { .. }
        | EntryState::File { .. }
        | EntryState::Absent
        | EntryState::Symlink { .. }
        | EntryState::Special
        | EntryState::Unreadable => None,
    }
}

/// Creates an entry where none exists.
fn make(directory: &Directory, name: &EntryName, state: &EntryState) -> io::Result<()> {
    match state {
        EntryState::Directory { mode } => {
            directory.create_directory(name, 0o700)?;
            directory.set_mode(name, *mode)
        }
        EntryState::File { mode, content: FileContent::Whole(bytes) } => {
            let mut file = NewFile::create(directory, 0o600)?;
            file.write(bytes)?;
            file.set_mode(*mode)?;
            match file.persist(name, RenameMode::Keep) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    let mut file = directory.create_file(name, *mode)?;
                    io::Write::write_all(&mut file, bytes)
                }
                persisted => persisted,
            }
        }
        EntryState::Symlink { target } => directory.create_symlink(target.as_os_str(), name),
        EntryState::File { content: FileContent::NotKept { .. }, .. }
        | EntryState::Absent
        | EntryState::Special
        | EntryState::Unreadable => Err(io::ErrorKind::Unsupported.into()),
    }
}
