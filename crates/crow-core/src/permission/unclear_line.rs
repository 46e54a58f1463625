//! A shell line that is not understood. No narrow rule allows it, and any rule that denies or asks may speak of it: a
//! denied command can be written in more ways than its words can be searched for. Where they are found, it surely does.

use std::{cell::OnceCell, collections::HashMap};

use super::{
    RuleRegex,
    call_part::RuleMatch,
    command::{base_name, continues_with},
};

/// A shell line that is not understood.
#[derive(Debug)]
pub(super) struct UnclearLine<'a> {
    pub(super) text: &'a str,
    bare: OnceCell<String>,
    words: OnceCell<WordIndex>,
}

#[derive(Debug)]
struct WordIndex {
    all: Vec<String>,
    places: HashMap<String, Vec<usize>>,
}

impl<'a> UnclearLine<'a> {
    /// The longest text that is looked into. Rules that deny or ask may speak of longer ones.
    const LONGEST: usize = 64 * 1024;

    pub(super) fn new(text: &'a str) -> Self {
        Self { text, bare: OnceCell::new(), words: OnceCell::new() }
    }

    /// Returns that the words of a prefix stand in the line, or may be written in it in another way.
    pub(super) fn mentions(&self, prefix: &[String]) -> RuleMatch {
        /// Bounds the work on a line that repeats the program: nobody gives this many options.
        const LONGEST_LOOK: usize = 16;

        if self.is_too_long() {
            return RuleMatch::Maybe;
        }
        let words = self.words.get_or_init(|| WordIndex::of(self.bare()));
        let Some((program, rest)) = prefix.split_first() else { return RuleMatch::No };
        let places = words.places.get(program).map_or(&[][..], Vec::as_slice);
        let found = places.iter().any(|place| {
            let after = words.all.iter().skip(place + 1).take(LONGEST_LOOK);
            continues_with(after.map(|word| Some(word.as_str())), rest) == RuleMatch::Yes
        });
        if found { RuleMatch::Yes } else { RuleMatch::Maybe }
    }

    /// Returns that a pattern is found in the line or in what may be one of its commands, or may be found when it runs.
    pub(super) fn is_found_by(&self, regex: &RuleRegex) -> RuleMatch {
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

    /// The line without the marks that the shell takes away: `r''m` runs `rm`.
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
        let mut places: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, word) in all.iter().enumerate() {
            places.entry(base_name(word).to_owned()).or_default().push(place);
            if base_name(word) != word {
                places.entry(word.clone()).or_default().push(place);
            }
        }
        Self { all, places }
    }
}

fn is_separator(character: char) -> bool {
    matches!(character, ';' | '|' | '&' | '(' | ')' | '{' | '}' | '\n' | '`')
}
