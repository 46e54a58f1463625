//! The project files that MCP servers are started from.
//!
//! A trusted `.mcp.json` names programs, which run outside the sandbox. Trust in the line `python3 tools/server.py`
//! is worthless if a command can change `tools/server.py` afterwards, so these files are part of the trusted state.

mod files;
mod find;
mod script_words;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use find::started_files;
pub(super) use find::{ProjectPrograms, USER_MARK_PREFIX};
pub(crate) use server::{StartedServer, user_servers};
