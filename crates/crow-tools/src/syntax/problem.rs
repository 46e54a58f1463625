//! Places at which a content does not follow its grammar.

use std::fmt::{self, Display, Formatter};

use crow_text::{one_line, shorten};

/// Maximum length of a quoted text, in characters.
const MAX_QUOTE: usize = 40;
/// Maximum length of a message of a parser, in characters.
const MAX_MESSAGE: usize = 100;

/// A line and a column, both counted from 1. The column counts characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextLocation {
    line: usize,
    column: usize,
}

impl TextLocation {
    /// Returns the location of a byte. A position inside a character counts as that of the character.
    pub(super) fn of_byte(text: &str, at: usize) -> Self {
        let before = &text[..text.floor_char_boundary(at)];
        let line_start = before.rfind('\n').map_or(0, |feed| feed + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// A place at which a content does not follow its grammar.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SyntaxProblem {
    location: TextLocation,
    kind: SyntaxProblemKind,
}

#[derive(Debug, PartialEq, Eq)]
enum SyntaxProblemKind {
    /// The text has no place in the grammar.
    Near(String),
    /// The grammar requires this token.
    Missing(String),
    /// The end of the content comes too early.
    End,
    /// A statement of a parser.
    Message(String),
}

impl SyntaxProblem {
    /// Makes a problem of the text from `at` on, up to the end of its line.
    pub(super) fn near(text: &str, at: usize, part: &str) -> Self {
        let line = part.trim_start().lines().next().unwrap_or_default();
        let kind = if line.is_empty() {
            SyntaxProblemKind::End
        } else {
            SyntaxProblemKind::Near(shorten(&one_line(line), MAX_QUOTE))
        };
        let indent = part.len() - part.trim_start().len();
        Self { location: TextLocation::of_byte(text, at + indent), kind }
    }

    /// Makes a problem of a token that is required at `at`.
    pub(super) fn missing(text: &str, at: usize, token: &str) -> Self {
        Self {
            location: TextLocation::of_byte(text, at),
            kind: SyntaxProblemKind::Missing(shorten(&one_line(token), MAX_QUOTE)),
        }
    }

    /// Makes a problem from the message of a parser about the text at `at`.
    pub(super) fn message(text: &str, at: usize, message: &str) -> Self {
        Self {
            location: TextLocation::of_byte(text, at),
            kind: SyntaxProblemKind::Message(shorten(&one_line(message), MAX_MESSAGE)),
        }
    }
}

impl Display for SyntaxProblem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let TextLocation { line, column } = self.location;
        write!(f, "line {line}:{column} ")?;
        match &self.kind {
            SyntaxProblemKind::Near(part) => write!(f, "near `{part}`"),
            SyntaxProblemKind::Missing(token) => write!(f, "missing `{token}`"),
            SyntaxProblemKind::End => f.write_str("unexpected end"),
            SyntaxProblemKind::Message(message) => f.write_str(message),
        }
    }
}

/// The result of a check of a content.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SyntaxVerdict {
    /// The content follows its grammar.
    Valid,
    /// The content does not follow its grammar.
    Broken(ProblemList),
    /// The content was not checked: it takes too long, or it is in a dialect.
    Undecided,
}

/// The problems of a content in order; at least one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProblemList {
    /// The first problems, up to [`ProblemList::SHOWN`].
    pub(super) first: Vec<SyntaxProblem>,
    /// The number of all problems.
    pub(super) count: usize,
}

impl ProblemList {
    /// Number of problems that are described.
    pub(super) const SHOWN: usize = 3;

    /// Makes a list of one problem.
    pub(super) fn single(problem: SyntaxProblem) -> Self {
        Self { first: vec![problem], count: 1 }
    }
}

impl Display for ProblemList {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.first.iter().enumerate() {
            let separator = if number == 0 { "" } else { ", " };
            write!(f, "{separator}{problem}")?;
        }
        match self.count - self.first.len() {
            0 => Ok(()),
            more => write!(f, " (and {more} more)"),
        }
    }
}
