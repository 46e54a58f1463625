//! The format version of the store. A store written by a newer program is left alone.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use super::{SnapshotStoreError, error::io_error_at};

const FILE: &str = "version";
/// The first version: all snapshots are of one root, and all objects have files of their own.
const FIRST: u32 = 1;
/// The version with snapshots of several roots, which an older program would collect as garbage.
pub(super) const ROOTS: u32 = 2;
/// The version with packs, which an older program does not know.
pub(super) const PACKS: u32 = 3;
/// The newest version.
const VERSION: u32 = PACKS;

/// Checks the version before anything else of the store is used, and writes it into a new store.
pub(super) fn check(store: &Path) -> Result<(), SnapshotStoreError> {
    let path = store.join(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(io_error_at(path)(error)),
    };
    match text.trim() {
        // Missing, or cut by a crash.
        "" => write(&path, FIRST).map_err(io_error_at(path)),
        known if known.parse().is_ok_and(|version: u32| version <= VERSION) => Ok(()),
        newer => Err(SnapshotStoreError::Newer {
            path: store.to_path_buf(),
            version: newer.to_owned(),
            known: VERSION,
        }),
    }
}

/// Raises the version of a store to at least `version`.
pub(super) fn raise(store: &Path, version: u32) -> Result<(), SnapshotStoreError> {
    let path = store.join(FILE);
    let known = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
    match known {
        Some(known) if version <= known => Ok(()),
        _ => write(&path, version).map_err(io_error_at(path)),
    }
}

/// Writes the file with mode 600, whatever the umask of the process is.
fn write(path: &Path, version: u32) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(format!("{version}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_the_owner_can_read_the_version_file() {
        let folder = tempfile::tempdir().unwrap();
        check(folder.path()).unwrap();
        raise(folder.path(), PACKS).unwrap();
        raise(folder.path(), ROOTS).unwrap();
        let metadata = fs::metadata(folder.path().join(FILE)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(folder.path().join(FILE)).unwrap(), "3\n");
    }
}
