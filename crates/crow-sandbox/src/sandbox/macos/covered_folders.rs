//! What commands do not see beside the hidden places.

use std::path::PathBuf;

/// Folders of the system that commands do not see: none, they run among the system's own.
pub(in crate::sandbox) fn covered() -> Vec<PathBuf> {
    Vec::new()
}

/// What commands see in them all the same.
pub(in crate::sandbox) fn kept() -> Vec<PathBuf> {
    Vec::new()
}
