//! Reading of a program's options with a list of the known ones.

use super::arguments::Argument;

/// The options of a program that change and start nothing, or whose effects are handled by the caller.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProgramOptions {
    /// Letters without a value.
    pub flags: &'static str,
    /// Letters with a value, in the same word or in the next one. A letter listed here wrongly hides an operand.
    pub valued: &'static str,
    /// Long names, divided by blanks, with or without a value after `=`. A value in the next word counts as an
    /// operand: rather one too many than one too few.
    pub long: &'static str,
}

/// The parsed arguments of a program.
#[derive(Debug, Default)]
pub(super) struct ParsedOptions<'a> {
    pub operands: Vec<&'a Argument>,
    pub letters: String,
    pub long: Vec<&'a str>,
    pub values: Vec<(char, &'a str)>,
    /// Options with their possible value, in order: a letter, or a long name with the text after `=` or the next
    /// word.
    pub in_order: Vec<(&'a str, Option<&'a str>)>,
}

/// Returns the name of an option: what precedes its `=`.
pub(super) fn option_name(word: &str) -> &str {
    word.split_once('=').map_or(word, |(name, _)| name)
}

impl ParsedOptions<'_> {
    /// Returns whether an option is given, by its letter or its long name.
    pub(super) fn has(&self, letter: char, name: &str) -> bool {
        self.letters.contains(letter)
            || self.values.iter().any(|(it, _)| *it == letter)
            || self.long.iter().any(|it| option_name(it) == name)
    }

    /// Returns whether folders are read recursively: `-r`, or `-d recurse` of grep. In other programs `-d` is a
    /// number, a depth.
    pub(super) fn is_recursive(&self) -> bool {
        let is_depth = |value: &str| value.chars().all(|char| char.is_ascii_digit());
        self.has('r', "--recursive")
            || self.values.iter().any(|(letter, value)| {
                *letter == 'd' && !matches!(*value, "read" | "skip") && !is_depth(value)
            })
    }
}

impl ProgramOptions {
    /// Parses arguments. Returns `None` if one of them is unknown.
    pub(super) fn read<'a>(&self, arguments: &'a [Argument]) -> Option<ParsedOptions<'a>> {
        let mut given = ParsedOptions::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let text = match argument {
                Argument::Known(text) => text.as_str(),
                Argument::Pipe => {
                    given.operands.push(argument);
                    continue;
                }
                Argument::Unknown => return None,
            };
            if text == "--" {
                given.operands.extend(arguments);
                break;
            }
            if text.starts_with("--") {
                let name = option_name(text);
                if !self.long.split(' ').any(|known| known == name) {
                    return None;
                }
                given.long.push(text);
                let next = || arguments.as_slice().first().and_then(Argument::as_known);
                let value = text.split_once('=').map(|(_, value)| value).or_else(next);
                given.in_order.push((name, value));
            } else if let Some(letters) = text.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                self.letters(letters, &mut arguments, &mut given)?;
            } else {
                given.operands.push(argument);
            }
        }
        let is_known = |operand: &&Argument| **operand != Argument::Unknown;
        given.operands.iter().all(is_known).then_some(given)
    }

    /// Parses a cluster of letters; the first one with a value ends it.
    fn letters<'a>(
        &self,
        letters: &'a str,
        arguments: &mut std::slice::Iter<'a, Argument>,
        given: &mut ParsedOptions<'a>,
    ) -> Option<()> {
        for (at, letter) in letters.char_indices() {
            if self.valued.contains(letter) {
                let rest = &letters[at + letter.len_utf8()..];
                let value = if rest.is_empty() { arguments.next()?.as_known()? } else { rest };
                given.values.push((letter, value));
                let letter = &letters[at..at + letter.len_utf8()];
                given.in_order.push((letter, Some(value)));
                return Some(());
            }
            if !self.flags.contains(letter) {
                return None;
            }
            given.letters.push(letter);
        }
        Some(())
    }
}
