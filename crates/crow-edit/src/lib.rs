//! The matcher of `edit_file` and `apply_patch`: bytes and edits or hunks in, bytes out.
//!
//! An edit names its place by quoting the old text, and models misquote: line ends, indentation, quotes, escapes. The
//! matcher therefore *locates* on a ladder from exact to loose (`locate`), but *writes* as a three-way merge
//! (`merge`): the file keeps every byte that the edit does not change, and what the edit changes must be what the
//! model has seen. Anything uncertain is refused with an error that tells the model what to do next.
//!
//! A hunk of a patch quotes whole lines and may name lines above them. It is located on the same levels, and these lines
//! only choose among the places that it fits (`hunks`).
//!
//! The crate does no input or output and knows nothing about tools, paths or permissions.

mod align;
mod apply;
mod block_anchors;
mod edit_readings;
mod error;
mod file_text;
mod hunks;
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
pub use hunks::{HunkLine, HunkMark, PatchHunk, apply_hunks};
pub use missing_text::MissingTextReport;
