//! The version of the store's format. What was written by a newer program is left alone.

use std::{fs, io, path::Path};

use super::{SnapshotStoreError, error::at};

const FILE: &str = "version";
/// The newest one. A store whose snapshots are all of one root is of the first.
const VERSION: u32 = 2;
const FIRST: u32 = 1;

/// Reads the version, before anything else of the store is touched, and writes it into a store that has none.
pub(super) fn check(store: &Path) -> Result<(), SnapshotStoreError> {
    let path = store.join(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(at(path)(error)),
    };
    match text.trim() {
        // None yet, or cut by a crash.
        "" => fs::write(&path, format!("{FIRST}\n")).map_err(at(path)),
        known if known.parse().is_ok_and(|version: u32| version <= VERSION) => Ok(()),
        newer => Err(SnapshotStoreError::Newer {
            path: store.to_path_buf(),
            version: newer.to_owned(),
            known: VERSION,
        }),
    }
}

/// Says that there may be snapshots of several roots, which an older program would take for garbage.
pub(super) fn raise(store: &Path) -> Result<(), SnapshotStoreError> {
    let (path, newest) = (store.join(FILE), format!("{VERSION}\n"));
    match fs::read_to_string(&path) {
        Ok(text) if text == newest => Ok(()),
        _ => fs::write(&path, newest).map_err(at(path)),
    }
}
