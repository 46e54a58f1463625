//! What is wrong with a provider's TOML, and where.

use std::{
    ops::Range,
    path::{Path, PathBuf},
};

/// Something in a provider's TOML cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {message}", .path.display())]
pub struct ConfigError {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong and what to do about it.
    pub message: String,
}

/// The text that is being read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// Makes an error about the part of the text at `span`.
    pub(super) fn error(self, span: &Range<usize>, message: impl Into<String>) -> ConfigError {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        ConfigError {
            path: self.path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
            message: message.into(),
        }
    }

    /// Turns an error of the parser into ours; an unknown key gets the known one that it is most like.
    pub(super) fn syntax_error(self, error: &toml::de::Error) -> ConfigError {
        let message = error.message();
        let span = error.span().unwrap_or(0..0);
        // serde says: unknown field `given`, expected one of `known`, `known`
        let Some(rest) = message.strip_prefix("unknown field ") else {
            let message = message.replace("expected u64", "expected a positive whole number");
            return self.error(&span, message);
        };
        let mut quoted = rest.split('`').skip(1).step_by(2);
        let given = quoted.next().unwrap_or_default();
        let known: Vec<&str> = quoted.collect();
        self.error(&span, unknown("key", given, &known))
    }
}

/// Says that a word is unknown, which one it is most like, and which ones there are.
pub(super) fn unknown(what: &str, given: &str, known: &[&str]) -> String {
    let list = known.join(", ");
    match nearest(given, known.iter().copied()) {
        Some(near) => {
            format!("unknown {what} \"{given}\", did you mean \"{near}\"? known are {list}")
        }
        None => format!("unknown {what} \"{given}\"; known are {list}"),
    }
}

/// Returns the known word that is most like the given one, if any is much like it.
pub(crate) fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const LEAST: f64 = 0.8;
    known
        .map(|word| (strsim::jaro_winkler(given, word), word))
        .filter(|(likeness, _)| *likeness >= LEAST)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, word)| word)
}
