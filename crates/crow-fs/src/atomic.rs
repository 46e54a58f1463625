//! A new file that is put at its path in one step.

use std::{
    ffi::OsString,
    fs::File,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io::{self, Write as _},
    path::Path,
};

use crate::{
    directory::{Directory, EntryName, RenameMode},
    metadata::{EntryMetadata, FileIdentity, number},
};

/// The number of attempts to find a free name.
const TRIES: usize = 64;
const BEGINNING: &str = ".crow-";
const END: &str = ".tmp";

/// A temporary file in the directory of its final path. It is removed if dropped before [`persist`](Self::persist).
#[derive(Debug)]
pub struct NewFile<'a> {
    directory: &'a Directory,
    name: Option<EntryName>,
    identity: FileIdentity,
    file: File,
}

impl<'a> NewFile<'a> {
    /// Creates an empty file in a directory. The process's umask applies to `mode`.
    ///
    /// # Errors
    ///
    /// The errors of [`Directory::create_file`].
    pub fn create(directory: &'a Directory, mode: u32) -> io::Result<Self> {
        for _ in 0..TRIES {
            let name =
                EntryName::new(OsString::from(format!("{BEGINNING}{:016x}{END}", random())))?;
            match directory.create_file(&name, mode) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => {
                    let file = created?;
                    // The lock tells a cleanup after killed processes that this file is in use. Not every file system can lock.
                    drop(file.try_lock());
                    let identity = EntryMetadata::new(&rustix::fs::fstat(&file)?).identity;
                    return Ok(Self { directory, name: Some(name), identity, file });
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "no free name for a temporary file"))
    }

    /// Returns the file, for writing and for setting its mode and owner.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Writes the whole content.
    ///
    /// # Errors
    ///
    /// Any error of the file system.
    pub fn write(&mut self, content: &[u8]) -> io::Result<()> {
        self.file.write_all(content)
    }

    /// Sets the mode.
    ///
    /// # Errors
    ///
    /// Any error of the file system.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.file, rustix::fs::Mode::from_raw_mode(number(mode)))?)
    }

    /// Renames the file to its final name.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if another file has the temporary name, and those of [`Directory::rename`]. Then
    /// the new file is removed, and the entry at `name` is unchanged.
    pub fn persist(mut self, name: &EntryName, mode: RenameMode) -> io::Result<()> {
        let Some(own) = self.name.take() else { return Ok(()) };
        // Another process with write access to the directory could have replaced the temporary file.
        let renamed = match self.directory.metadata(&own) {
            Ok(found) if found.identity == self.identity => {
                match self.directory.rename(&own, self.directory, name, mode) {
                    Err(error)
                        if mode == RenameMode::Keep
                            && error.kind() == io::ErrorKind::Unsupported =>
                    {
                        self.link_in_place(&own, name)
                    }
                    renamed => renamed,
                }
            }
            Ok(_) => Err(io::ErrorKind::NotFound.into()),
            Err(error) => Err(error),
        };
        if renamed.is_err() || mode == RenameMode::Exchange {
            self.name = Some(own);
        }
        renamed
    }

    /// Takes a free name where the file system cannot rename without replacing: a hard link fails if the name is
    /// taken.
    fn link_in_place(&self, own: &EntryName, name: &EntryName) -> io::Result<()> {
        self.directory.hard_link(own, self.directory, name)?;
        self.directory.remove_file(own)
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        // On failure it stays: its name marks it as a temporary file of ours.
        if let Some(name) = &self.name {
            drop(self.directory.remove_file(name));
        }
    }
}

/// Removes the temporary files of processes that were killed before they renamed them. Files in use stay. Returns the
/// number of removed files.
///
/// # Errors
///
/// The errors of [`Directory::open`] and [`Directory::names`].
pub fn remove_leftover_files(directory: &Path) -> io::Result<usize> {
    let directory = Directory::open(directory)?;
    let mut removed = 0;
    for name in directory.names()?.into_iter().filter(is_own) {
        let is_left = directory.open_file(&name).is_ok_and(|file| file.try_lock().is_ok());
        if is_left && directory.remove_file(&name).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}

fn is_own(name: &EntryName) -> bool {
    let number =
        name.as_os_str().to_str().and_then(|name| name.strip_prefix(BEGINNING)?.strip_suffix(END));
    number.is_some_and(|number| number.len() == 16 && number.chars().all(|c| c.is_ascii_hexdigit()))
}

/// Returns an unpredictable number, so that no other process can occupy the name in advance.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
