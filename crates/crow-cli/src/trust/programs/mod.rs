//! The files of a project that its servers are started from.
//!
//! A trusted `.mcp.json` names programs, and those run outside of the sandbox. Trust in the line `python3 tools/server.py`
//! is worth nothing if a command may change `tools/server.py` afterwards, so these files are part of what is trusted.

mod find;
mod mark;
mod resolve;
mod server;
#[cfg(test)]
mod tests;
mod words;

use std::path::{Path, PathBuf};

pub(super) use find::{OF_USER, ProjectPrograms};
pub(crate) use server::StartedServer;

/// Returns the files below a root that these servers are started from, and that commands are to be kept from. Blocks.
pub(crate) fn started_files(root: &Path, servers: &[StartedServer]) -> Vec<PathBuf> {
    ProjectPrograms::find(root, servers).held.into_iter().collect()
}
