//! Reading of one word by the shell's quoting rules.

use std::{iter::Peekable, str::Chars};

use crow_core::tool::CommandWord;

/// Reads the text of one word. Returns `None` if it is not exactly one word.
pub(super) fn read_word(text: &str) -> Option<CommandWord> {
    let mut reader = WordReader {
        chars: text.chars().peekable(),
        value: String::new(),
        brace: BraceState::None,
    };
    if text.starts_with('~') || text.starts_with("<(") || text.starts_with(">(") {
        return Some(CommandWord::Computed(text.to_owned()));
    }
    match reader.read()? {
        WordCertainty::Yes => Some(CommandWord::Literal(reader.value)),
        WordCertainty::No => Some(CommandWord::Computed(text.to_owned())),
    }
}

/// Returns whether a `$'…'` ends exactly at the end of the text.
pub(super) fn is_whole_ansi_string(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("$'") else { return false };
    let mut chars = inner.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => drop(chars.next()),
            '\'' => return chars.next().is_none(),
            _ => {}
        }
    }
    false
}

/// The certainty of a word: its value is known before the line runs, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordCertainty {
    Yes,
    No,
}

/// The state of a possible brace expansion: after a `{`, a comma or `..` makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BraceState {
    None,
    Open,
}

struct WordReader<'text> {
    chars: Peekable<Chars<'text>>,
    value: String,
    brace: BraceState,
}

impl WordReader<'_> {
    /// Reads to the end, or to the first part that makes the value unknown.
    fn read(&mut self) -> Option<WordCertainty> {
        while let Some(char) = self.chars.next() {
            match char {
                '\'' => self.single_quoted()?,
                '"' => {
                    if self.double_quoted()? == WordCertainty::No {
                        return Some(WordCertainty::No);
                    }
                }
                '\\' => match self.chars.next()? {
                    '\n' => {}
                    escaped => self.value.push(escaped),
                },
                '`' | '*' | '?' | '[' => return Some(WordCertainty::No),
                '$' if self.chars.next_if_eq(&'\'').is_some() => {
                    if self.ansi_quoted()? == WordCertainty::No {
                        return Some(WordCertainty::No);
                    }
                }
                '$' if self.chars.peek().is_some() => return Some(WordCertainty::No),
                '{' => {
                    self.brace = BraceState::Open;
                    self.value.push(char);
                }
                // A list or range in braces expands to several words.
                ',' if self.brace == BraceState::Open => return Some(WordCertainty::No),
                '.' if self.brace == BraceState::Open && self.chars.peek() == Some(&'.') => {
                    return Some(WordCertainty::No);
                }
                // Unquoted, these end a word.
                ';' | '|' | '&' | '(' | ')' | '<' | '>' => return None,
                _ if char.is_ascii_whitespace() || char == '\u{b}' => return None,
                _ => self.value.push(char),
            }
        }
        Some(WordCertainty::Yes)
    }

    fn single_quoted(&mut self) -> Option<()> {
        loop {
            match self.chars.next()? {
                '\'' => return Some(()),
                char => self.value.push(char),
            }
        }
    }

    /// Reads `$'…'`. A value with escapes is unknown.
    fn ansi_quoted(&mut self) -> Option<WordCertainty> {
        loop {
            match self.chars.next()? {
                '\'' => return Some(WordCertainty::Yes),
                '\\' => return Some(WordCertainty::No),
                char => self.value.push(char),
            }
        }
    }

    fn double_quoted(&mut self) -> Option<WordCertainty> {
        loop {
            match self.chars.next()? {
                '"' => return Some(WordCertainty::Yes),
                '`' => return Some(WordCertainty::No),
                '$' if self.chars.peek() != Some(&'"') => return Some(WordCertainty::No),
                '\\' => match self.chars.next()? {
                    '\n' => {}
                    escaped @ ('$' | '`' | '"' | '\\') => self.value.push(escaped),
                    other => self.value.extend(['\\', other]),
                },
                char => self.value.push(char),
            }
        }
    }
}
