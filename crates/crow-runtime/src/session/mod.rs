//! Sessions: a header (`metadata.json`), an append-only log (`history.jsonl`), and the stores for both.

mod conversation_log;
mod error;
mod file;
mod imported_session;
mod list;
mod log_file;
mod memory_store;
mod metadata;
mod recent_log;
mod root_session;
mod salvage;
mod session_state;
mod store;
mod undo_file;
mod undo_record;
mod unfinished_sessions;

pub use error::SessionError;
pub use file::FileStore;
pub use imported_session::ImportedSession;
pub use memory_store::MemoryStore;
pub use metadata::{CrowMetadata, ModelUsage, ReservedKey, SessionMetadata};
pub use root_session::RootSession;
pub use salvage::{Damage, LostLine};
pub use store::{
    ListCursor, OpenedSession, SessionFilter, SessionLog, SessionRepair, SessionStore,
    StoredSession, UnusedSessions,
};

pub use undo_record::{CallKey, PathException, UndoAction, UndoRecord};

pub(crate) use conversation_log::StoredConversation;
pub(crate) use metadata::title_of;
pub(crate) use session_state::{
    RootSessionState, ToolState, TreeSnapshots, UsageByModel, model_of,
};
