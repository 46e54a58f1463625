//! The matcher of `edit_file`: bytes and edits in, bytes out.
//!
//! An edit names its place by quoting the old text, and models misquote: line ends, indentation, quotes,
//! escapes. The matcher therefore *locates* on a ladder from exact to loose ([`ladder`]), but *writes* as a
//! three-way merge ([`merge`]): the file keeps every byte that the edit does not change, and what the edit
//! changes must be what the model has seen. Whatever is not certain is refused with an error that
//! tells the model what to do next.
//!
//! Does no input or output and knows nothing about tools, paths or permissions.

mod align;
mod anchors;
mod apply;
mod error;
mod half_indented;
mod hint;
mod indent;
mod ladder;
mod lines;
mod merge;
mod omission;
mod readings;
mod search;
#[cfg(test)]
mod tests;
mod text;
mod tokens;

pub use apply::{Applied, Cause, Edit, MatchType, Note, apply_edits};
pub use error::{EditError, Likeness, Places, Reason};
pub use hint::Miss;
