//! Removal of a session together with its snapshots.

use crow_core::ids::SessionId;
use crow_runtime::{SessionStore, SnapshotStores, UndoError};

/// Removes a session permanently, and the snapshots that only it refers to. Blocks.
pub fn remove(
    store: &dyn SessionStore,
    snapshots: &SnapshotStores,
    id: &SessionId,
) -> Result<(), UndoError> {
    // The root of an unreadable session is unknown, so its snapshots stay; the session is removed all the same.
    let root = store.header(id).ok().map(|header| header.crow().cwd);
    store.remove(id)?;
    if let Some(root) = root {
        snapshots.forget_session(&root, id)?;
    }
    Ok(())
}
