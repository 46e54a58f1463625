//! System folders that are replaced for commands: none on macOS.

use std::path::PathBuf;

/// Returns the system folders that commands do not see: none, they run among the system's own.
pub(in crate::sandbox) fn covered_folders() -> Vec<PathBuf> {
    Vec::new()
}

/// Returns the paths within them that stay visible.
pub(in crate::sandbox) fn visible_exceptions() -> Vec<PathBuf> {
    Vec::new()
}
