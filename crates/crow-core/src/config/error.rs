//! Errors in configuration files, with their position.

use std::{
    fmt,
    ops::Range,
    path::{Path, PathBuf},
};

/// Error for a part of a configuration file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The file.
    pub path: PathBuf,
    /// Its position. None if the error is about the whole file.
    pub position: Option<TextPosition>,
    /// The problem and what to do about it.
    pub message: String,
}

/// A position in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPosition {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

/// The text that is being parsed, with its path.
#[derive(Debug, Clone, Copy)]
pub struct SourceText<'a> {
    /// The file that it comes from.
    pub path: &'a Path,
    /// The text.
    pub text: &'a str,
}

impl ConfigError {
    /// Makes an error about a file as a whole.
    pub fn of_file(path: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self { path: path.into(), position: None, message: message.into() }
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.path.display())?;
        if let Some(place) = self.position {
            write!(f, "{place}:")?;
        }
        write!(f, " {}", self.message)
    }
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

impl TextPosition {
    /// Returns the position of a byte of a text.
    pub fn of_byte(text: &str, byte: usize) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl SourceText<'_> {
    /// Makes an error about the part of the text at `span`.
    pub fn error(self, span: &Range<usize>, message: impl Into<String>) -> ConfigError {
        ConfigError {
            path: self.path.to_owned(),
            position: Some(TextPosition::of_byte(self.text, span.start)),
            message: message.into(),
        }
    }

    /// Converts an error of the parser.
    pub fn syntax_error(self, span: Option<Range<usize>>, message: &str) -> ConfigError {
        self.error(&span.unwrap_or(0..0), super::reword_serde_error(message))
    }
}
