//! Removing a session together with what was kept to undo it.

use crow_core::ids::SessionId;
use crow_runtime::{SessionStore, SnapshotStores, UndoError};

/// Removes a session for good, and the states of files that it alone refers to. Blocks.
pub(crate) fn remove(
    store: &dyn SessionStore,
    snapshots: &SnapshotStores,
    id: &SessionId,
) -> Result<(), UndoError> {
    // Of a session that cannot be read nobody knows where it worked; it can be removed all the same.
    let root = store.header(id).ok().map(|header| header.crow().cwd);
    store.remove(id)?;
    if let Some(root) = root {
        snapshots.forget_session(&root, id)?;
    }
    Ok(())
}
