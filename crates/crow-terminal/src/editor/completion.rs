//! Finds the word to complete at the cursor: a command at the start of the text, or the path of a file after `@`.
//!
//! A path may be in quotes, or have a backslash before its blanks. The range to replace ends at the cursor, so text
//! behind it is never lost.

use std::ops::Range;

use super::prompt_text::{PromptText, UnitContent};

/// Maximum number of bytes before the cursor in which a path is sought.
const LONGEST_LINE: usize = 4096;

/// Source of the candidates of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompletionKind {
    /// `/word` at the start of the text.
    Command,
    /// `@path` at the start of a word.
    File,
}

/// A word that can be completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompletionContext {
    pub(crate) kind: CompletionKind,
    /// The word up to the cursor, with its `/` or `@`.
    pub(crate) range: Range<usize>,
    /// Text typed after `/` or `@`, without quotes and backslashes.
    pub(crate) typed: String,
}

/// Characters that end a path without quotes, or could begin a range of lines behind it.
const QUOTED: &str = "\"\\'`;<>|,:#";
/// Characters that belong to the sentence at the end of a path without quotes.
const QUOTED_AT_END: [char; 6] = ['.', '!', '?', ')', ']', '}'];

/// Returns the text that stands for a file in a prompt, in quotes if it must be.
pub(crate) fn file_reference(path: &str) -> String {
    let is_quoted = |character: char| character.is_whitespace() || QUOTED.contains(character);
    if path.contains(is_quoted) || path.ends_with(QUOTED_AT_END) {
        format!("@\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        format!("@{path}")
    }
}

pub(super) fn context(text: &PromptText, cursor: usize) -> Option<CompletionContext> {
    command(text, cursor).or_else(|| file(text, cursor))
}

fn command(text: &PromptText, cursor: usize) -> Option<CompletionContext> {
    let typed = text.as_str()[..cursor].strip_prefix('/')?;
    let is_word = !typed.contains(char::is_whitespace)
        && text.chips().first().is_none_or(|chip| chip.start >= cursor);
    is_word.then(|| CompletionContext {
        kind: CompletionKind::Command,
        range: 0..cursor,
        typed: typed.to_owned(),
    })
}

/// Position within the words of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordState {
    Between,
    /// In a word that is no path.
    Other,
    /// In a path that began at this place.
    Path(usize),
    /// In a path in quotes.
    Quoted(usize),
}

fn file(text: &PromptText, cursor: usize) -> Option<CompletionContext> {
    let line_start = text.line_start(cursor);
    let (from, mut state) = if cursor - line_start > LONGEST_LINE {
        (text.boundary_from(cursor - LONGEST_LINE), WordState::Other)
    } else {
        (line_start, WordState::Between)
    };
    let mut typed = String::new();
    let mut units = text.units(from..cursor).peekable();
    while let Some(unit) = units.next() {
        let UnitContent::Cluster(cluster) = unit.content else {
            state = WordState::Between;
            continue;
        };
        let is_blank = cluster.starts_with(char::is_whitespace);
        state = match state {
            WordState::Between if cluster == "@" => {
                typed.clear();
                WordState::Path(unit.start)
            }
            WordState::Between | WordState::Other | WordState::Path(_) if is_blank => {
                WordState::Between
            }
            // An address may be in brackets: `(@src/main.rs)`.
            WordState::Between if matches!(cluster, "(" | "[" | "{" | "<") => WordState::Between,
            WordState::Between | WordState::Other => WordState::Other,
            WordState::Path(start) if cluster == "\"" && unit.start == start + 1 => {
                WordState::Quoted(start)
            }
            WordState::Quoted(_) if cluster == "\"" => WordState::Other,
            WordState::Path(_) | WordState::Quoted(_) => {
                let escaped = match units.peek().map(|unit| unit.content) {
                    Some(UnitContent::Cluster(next)) if cluster == "\\" => Some(next),
                    Some(
                        UnitContent::Cluster(_) | UnitContent::LineFeed | UnitContent::Chip(_),
                    )
                    | None => None,
                };
                typed.push_str(escaped.unwrap_or(cluster));
                if escaped.is_some() {
                    units.next();
                }
                state
            }
        };
    }
    match state {
        WordState::Path(start) | WordState::Quoted(start) => {
            Some(CompletionContext { kind: CompletionKind::File, range: start..cursor, typed })
        }
        WordState::Between | WordState::Other => None,
    }
}
