//! Renders a scripted model reply as the server-sent events of four vendor dialects.
//!
//! All functions are pure and return bytes. The module knows the vendors' wire formats, but not sockets, scripts or
//! checks.

mod anthropic;
mod chat;
mod errors;
mod gemini;
mod models;
mod options;
mod pieces;
mod render;
mod reply;
mod responses;
mod sse;

pub use errors::{ErrorResponse, VendorError};
pub use models::model_list;
pub use options::{ChatFlavour, EncryptedReasoning, UsageChunk, WireOptions};
pub use pieces::DeltaSize;
pub use render::{
    comment_frame, error_event_frame, error_frame, frames, terminal_frames, unknown_frame,
};
pub use reply::{ReplyUsage, ScriptedBlock, ScriptedReply, ScriptedStop, WireDialect};
