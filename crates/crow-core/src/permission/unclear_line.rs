//! A shell line that could not be parsed. No narrow rule allows it, and any rule that denies or asks may match it: a
//! denied command can be written in more ways than a search for its words can find. If its words are found, the rule
//! matches.

use std::{cell::OnceCell, collections::HashMap};

use super::{
    RuleRegex,
    call_part::RuleMatch,
    command::{base_name, continues_with},
};

/// A shell line that could not be parsed.
#[derive(Debug)]
pub(super) struct UnclearLine<'a> {
    pub(super) text: &'a str,
    bare: OnceCell<String>,
    words: OnceCell<WordIndex>,
}

/// The words of a line, with an index by name.
#[derive(Debug)]
struct WordIndex {
    all: Vec<String>,
    /// Positions in `all`, by the word and by its base name.
    positions: HashMap<String, Vec<usize>>,
}

impl<'a> UnclearLine<'a> {
    /// Maximum length of a text that is searched, in bytes. Rules that deny or ask may match longer ones.
    const LONGEST: usize = 64 * 1024;

    pub(super) fn new(text: &'a str) -> Self {
        Self { text, bare: OnceCell::new(), words: OnceCell::new() }
    }

    /// Returns [`RuleMatch::Yes`] if the words of a prefix are in the line, else `Maybe`: it may be written in
    /// another way.
    pub(super) fn mentions(&self, prefix: &[String]) -> RuleMatch {
        /// Maximum number of words after the program. Bounds the work on a line that repeats it; real lines have
        /// fewer options.
        const LONGEST_LOOK: usize = 16;

        if self.is_too_long() {
            return RuleMatch::Maybe;
        }
        let words = self.words.get_or_init(|| WordIndex::of(self.bare()));
        let Some((program, rest)) = prefix.split_first() else { return RuleMatch::No };
        let positions = words.positions.get(program).map_or(&[][..], Vec::as_slice);
        let found = positions.iter().any(|position| {
            let after = words.all.iter().skip(position + 1).take(LONGEST_LOOK);
            continues_with(after.map(|word| Some(word.as_str())), rest) == RuleMatch::Yes
        });
        if found { RuleMatch::Yes } else { RuleMatch::Maybe }
    }

    /// Returns `Yes` if a pattern is found in the line or in one of its possible commands, else `Maybe`.
    pub(super) fn match_regex(&self, regex: &RuleRegex) -> RuleMatch {
        if self.is_too_long() {
            return RuleMatch::Maybe;
        }
        let pieces = self.bare().split(is_separator);
        let found = pieces.map(|command| regex.find_in(command.trim()));
        found.fold(regex.find_in(self.text), RuleMatch::or).or(RuleMatch::Maybe)
    }

    fn is_too_long(&self) -> bool {
        self.text.len() > Self::LONGEST
    }

    /// Returns the line without the quoting that the shell removes: `r''m` runs `rm`.
    fn bare(&self) -> &str {
        self.bare.get_or_init(|| {
            let joined = self.text.replace("\\\n", "");
            joined.replace(['\'', '"', '\\'], "")
        })
    }
}

impl WordIndex {
    fn of(bare: &str) -> Self {
        let between = |character: char| {
            is_separator(character)
                || matches!(character, '<' | '>' | '=' | ',' | '!')
                || character.is_whitespace()
        };
        let all: Vec<String> =
            bare.split(between).filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let mut positions: HashMap<String, Vec<usize>> = HashMap::new();
        for (position, word) in all.iter().enumerate() {
            positions.entry(base_name(word).to_owned()).or_default().push(position);
            if base_name(word) != word {
                positions.entry(word.clone()).or_default().push(position);
            }
        }
        Self { all, positions }
    }
}

fn is_separator(character: char) -> bool {
    matches!(character, ';' | '|' | '&' | '(' | ')' | '{' | '}' | '\n' | '`')
}
