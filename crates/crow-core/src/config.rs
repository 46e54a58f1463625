//! Errors of configuration files: their positions, and serde's messages in plain words with the word that was likely
//! intended. Independent of the file format.

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
        self.error(&span.unwrap_or(0..0), reword_serde_error(message))
    }
}

/// Returns the message for an unknown word, with the most similar known one and the list of known ones.
pub fn unknown_word_message(kind: &str, given: &str, known: &[&str]) -> String {
    if known.is_empty() {
        return format!("unknown {kind} \"{given}\"; none is known");
    }
    let list = known.join(", ");
    match nearest(given, known.iter().copied()) {
        Some(near) => {
            format!("unknown {kind} \"{given}\", did you mean \"{near}\"? known are {list}")
        }
        None => format!("unknown {kind} \"{given}\"; known are {list}"),
    }
}

/// Returns the known word that is most similar to the given one, if any is similar enough.
pub fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const LEAST: f64 = 0.8;
    /// Similarity of a word with one typing error: swapped letters make a short word too dissimilar otherwise.
    const ONE_SLIP: f64 = 0.8;
    const SHORTEST: usize = 3;
    let likeness = |word: &str| {
        let is_slip = given.len() >= SHORTEST && strsim::osa_distance(given, word) == 1;
        strsim::jaro_winkler(given, word).max(if is_slip { ONE_SLIP } else { 0.0 })
    };
    known
        .map(|word| (likeness(word), word))
        .filter(|(likeness, _)| *likeness >= LEAST)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, word)| word)
}

/// Rewords a message of serde without terms of Rust; for an unknown key or value it names the most similar known one.
pub fn reword_serde_error(message: &str) -> String {
    for (start, kind) in [("unknown field ", "key"), ("unknown variant ", "value")] {
        // Format of serde: unknown field `given`, expected one of `known`, `known`
        if let Some(rest) = message.strip_prefix(start) {
            let mut quoted = rest.split('`').skip(1).step_by(2);
            let given = quoted.next().unwrap_or_default();
            let known: Vec<&str> = quoted.collect();
            return unknown_word_message(kind, given, &known);
        }
    }
    if let Some(rest) = message.strip_prefix("missing field `") {
        return format!("the key \"{}\" is missing", rest.trim_end_matches('`'));
    }
    let mut message = message.to_owned();
    for (rust, word) in [
        ("expected u64", "expected a positive whole number"),
        ("expected u32", "expected a positive whole number"),
        ("expected usize", "expected a positive whole number"),
        ("expected i64", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("expected f32", "expected a number"),
        ("invalid type: map", "invalid type: table"),
        ("invalid type: sequence", "invalid type: list"),
        ("expected a map", "expected a table"),
        ("expected a sequence", "expected a list"),
        ("expected a boolean", "expected true or false"),
    ] {
        if let Some(start) = message.find(rust) {
            message.replace_range(start..start + rust.len(), word);
        }
    }
    let Some((start, name)) = message.split_once("expected struct ") else { return message };
    let rest = name.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
    format!("{start}expected a table{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serde_messages_are_reworded_plainly() {
        for (message, expected) in [
            (
                "unknown field `nmae`, expected one of `name`, `role`",
                "unknown key \"nmae\", did you mean \"name\"? known are name, role",
            ),
            (
                "unknown variant `xyz`, expected `all` or `any`",
                "unknown value \"xyz\"; known are all, any",
            ),
            ("missing field `primary`", "the key \"primary\" is missing"),
            (
                "invalid type: string \"8\", expected u64",
                "invalid type: string \"8\", expected a positive whole number",
            ),
            (
                "invalid type: integer `1`, expected struct RawAgent",
                "invalid type: integer `1`, expected a table",
            ),
            ("invalid type: map, expected a sequence", "invalid type: table, expected a list"),
            ("duplicate key", "duplicate key"),
        ] {
            assert_eq!(reword_serde_error(message), expected);
        }
    }

    #[test]
    fn an_unknown_word_without_known_ones_is_reported() {
        assert_eq!(unknown_word_message("server", "x", &[]), "unknown server \"x\"; none is known");
    }
}
