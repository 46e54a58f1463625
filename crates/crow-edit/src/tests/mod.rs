//! Behaviour of the matcher as a whole.

mod arguments;
mod bytes;
mod cost;
mod errors;
mod hostile;
mod hunks;
mod indentation;
mod levels;
mod properties;

use super::{EditedFile, MatchType, NoteCause, TextEdit, apply_edits, error::EditError};

fn edit(old: &str, new: &str) -> TextEdit {
    TextEdit { old: old.to_owned(), new: new.to_owned(), replace_all: false }
}

fn edit_all(old: &str, new: &str) -> TextEdit {
    TextEdit { replace_all: true, ..edit(old, new) }
}

fn try_apply(file: &str, old: &str, new: &str) -> Result<EditedFile, EditError> {
    apply_edits(file.as_bytes(), &[edit(old, new)])
}

#[track_caller]
fn text(applied: &EditedFile) -> &str {
    std::str::from_utf8(&applied.content).unwrap()
}

/// Applies one edit and compares the whole file.
#[track_caller]
fn check(match_type: MatchType, file: &str, old: &str, new: &str, expected: &str) {
    let applied = try_apply(file, old, new).unwrap_or_else(|error| panic!("refused: {error}"));
    assert_eq!(text(&applied), expected);
    assert_eq!(applied.match_type, match_type);
    assert_eq!(applied.notes.is_empty(), match_type == MatchType::Exact, "{:?}", applied.notes);
}

#[track_caller]
fn refused(file: &str, old: &str, new: &str) -> EditError {
    match try_apply(file, old, new) {
        Ok(applied) => panic!("applied as {:?}:\n{}", applied.match_type, text(&applied)),
        Err(error) => error,
    }
}
