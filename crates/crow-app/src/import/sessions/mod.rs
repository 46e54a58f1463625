//! Reading the sessions of other programs.
//!
//! Each program has a [`SessionFormat`](format::SessionFormat), which finds its files and reads one as an
//! [`ImportedConversation`](conversation::ImportedConversation). [`events`] converts that into the events of a log of Crow.

pub(super) mod claude;
mod claude_compaction;
pub(super) mod codex;
mod conversation;
mod events;
mod find;
pub(super) mod format;
pub(super) mod gemini;
mod json_lines;
pub(super) mod opencode;
pub(super) mod pi;
mod stored;
#[cfg(test)]
mod tests;
mod tree;

pub(super) use find::add_sessions;
pub(crate) use stored::is_new_import;
pub(super) use stored::{session_state, write_session};
