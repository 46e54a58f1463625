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

pub(crate) use find::started_files;
pub(super) use find::{OF_USER, ProjectPrograms};
pub(crate) use server::StartedServer;
