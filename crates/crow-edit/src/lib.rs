//! The matcher of `edit_file`: bytes and edits in, bytes out.
//!
//! An edit names its place by quoting the old text, and models misquote: line ends, indentation, quotes, escapes. The
//! matcher therefore *locates* on a ladder from exact to loose (`locate`), but *writes* as a three-way merge
//! (`merge`): the file keeps every byte that the edit does not change, and what the edit changes must be what the
//! model has seen. Anything uncertain is refused with an error that tells the model what to do next.
//!
//! The crate does no input or output and knows nothing about tools, paths or permissions.

mod align;
mod apply;
mod block_anchors;
mod edit_readings;
mod error;
mod file_text;
mod indent_map;
mod indentation_doubt;
mod lines;
mod locate;
mod merge;
mod missing_text;
mod placeholders;
mod search;
#[cfg(test)]
mod tests;
mod token_merge;

pub use apply::{ChangeNote, EditedFile, MatchType, NoteCause, TextEdit, apply_edits};
pub use error::{AmbiguityKind, EditError, InexactMatchProblem, MatchingLines};
pub use missing_text::MissingTextReport;
