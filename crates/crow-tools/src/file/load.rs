//! Opening and loading of regular files. Nothing else is ever opened: a pipe or device could block for ever.

use std::{
    fs::{File, FileType, Metadata, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _},
    path::Path,
};

use rustix::fs::OFlags;

/// Files up to this size are loaded whole.
pub(crate) const MAX_WHOLE: u64 = 16 * 1024 * 1024;

/// Why a file was not loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("does not exist")]
    Missing,
    #[error("is a folder")]
    Folder,
    #[error("is {0}, not a regular file")]
    Special(&'static str),
    #[error("is larger than {} MiB", MAX_WHOLE >> 20)]
    TooLarge,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Opens a regular file by its resolved path.
pub(crate) fn open(path: &Path) -> Result<(File, Metadata), LoadError> {
    // Looking first keeps devices from being opened at all; looking again catches what was put there in between.
    check(&std::fs::symlink_metadata(path).map_err(missing)?)?;
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(missing)?;
    let metadata = file.metadata()?;
    check(&metadata)?;
    Ok((file, metadata))
}

/// Loads a regular file by its resolved path.
pub(crate) fn load(path: &Path) -> Result<Vec<u8>, LoadError> {
    let (file, metadata) = open(path)?;
    if metadata.len() > MAX_WHOLE {
        return Err(LoadError::TooLarge);
    }
    // Files of /proc say 0 and a file may grow: the size is only a hint.
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    file.take(MAX_WHOLE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_WHOLE { Err(LoadError::TooLarge) } else { Ok(bytes) }
}

fn missing(error: io::Error) -> LoadError {
    if error.kind() == io::ErrorKind::NotFound { LoadError::Missing } else { LoadError::Io(error) }
}

fn check(metadata: &Metadata) -> Result<(), LoadError> {
    let kind = metadata.file_type();
    if kind.is_file() {
        Ok(())
    } else if kind.is_dir() {
        Err(LoadError::Folder)
    } else {
        Err(LoadError::Special(special(kind)))
    }
}

fn special(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_symlink() {
        "a symbolic link that was just put there"
    } else {
        "a device"
    }
}
