//! A session's history: a fold over its log in which every call is stored with its result.

mod compaction;
mod fold;
mod reply;
#[cfg(test)]
mod tests;
mod timeline;

pub use compaction::{has_instructions, is_summary, is_user_input, mask_outputs};
pub use fold::{History, HistoryError, KnownInstructions, OpenCall};
pub use timeline::{HistoryEntry, SystemEvent};
