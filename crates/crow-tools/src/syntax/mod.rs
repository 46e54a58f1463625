//! The syntax check after a change of a file: a note for the model about errors that the change brought in.
//!
//! The check only tells and never refuses: grammars do not know every dialect, so a note is given only if the content
//! before the change followed the grammar, or if the file is new. What cannot be decided within the bounds is not told.

mod changed_block;
mod data_file;
mod grammar;
mod language;
mod note;
mod problem;

#[cfg(test)]
mod tests;

pub(crate) use language::SourceLanguage;
pub(crate) use note::syntax_note;
