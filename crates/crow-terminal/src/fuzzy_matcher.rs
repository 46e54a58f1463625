//! Fuzzy matching: a text matches if it has the characters of a query in their order.
//!
//! Case and accents count only if the query has capitals or accents. Scores and the positions of the characters are those
//! of `nucleo-matcher`.

use nucleo_matcher::{Config, Matcher, Utf32Str, chars};

/// Maximum number of characters of a query. The score of a longer one could exceed 16 bits.
const LONGEST_QUERY: usize = 1024;

/// The characters that are sought, and which differences are ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FuzzyQuery {
    characters: Vec<char>,
    /// The same characters if all of them are ASCII.
    ascii: Option<Vec<u8>>,
    ignores_case: bool,
    ignores_accents: bool,
}

impl FuzzyQuery {
    /// Returns a query in which capitals and accents count if there are some. `None` for a text of more than 1024
    /// characters.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let characters: Vec<char> = text.chars().collect();
        (characters.len() <= LONGEST_QUERY).then(|| Self {
            ignores_case: !characters.iter().copied().any(chars::is_upper_case),
            ignores_accents: characters.iter().all(|one| chars::normalize(*one) == *one),
            ascii: text.is_ascii().then(|| text.as_bytes().to_vec()),
            characters,
        })
    }

    /// Returns a query that ignores case.
    pub(crate) fn ignoring_case(text: &str) -> Option<Self> {
        Self::new(&text.chars().map(chars::to_lower_case).collect::<String>())
    }

    pub(crate) fn characters(&self) -> &[char] {
        &self.characters
    }

    /// Returns the characters as bytes if all of them are ASCII.
    pub(crate) fn ascii(&self) -> Option<&[u8]> {
        self.ascii.as_deref()
    }

    /// Returns the form of a character of a text that is compared with those of the query.
    pub(crate) fn folded(&self, character: char) -> char {
        if character.is_ascii() {
            return if self.ignores_case { character.to_ascii_lowercase() } else { character };
        }
        let plain = if self.ignores_accents { chars::normalize(character) } else { character };
        if self.ignores_case { chars::to_lower_case(plain) } else { plain }
    }

    /// Returns the form of an ASCII character of a text that is compared with those of the query.
    pub(crate) fn folded_byte(&self, byte: u8) -> u8 {
        if self.ignores_case { byte.to_ascii_lowercase() } else { byte }
    }

    /// Returns true if every match of this query is one of the other.
    pub(crate) fn narrows(&self, other: &Self) -> bool {
        self.ignores_case == other.ignores_case
            && self.ignores_accents == other.ignores_accents
            && self.characters.starts_with(&other.characters)
    }

    fn needle(&self) -> Utf32Str<'_> {
        match &self.ascii {
            Some(bytes) => Utf32Str::Ascii(bytes),
            None => Utf32Str::Unicode(&self.characters),
        }
    }
}

/// The score of a match, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FuzzyMatch {
    pub(crate) score: u16,
    /// Numbers of the matched characters, in ascending order.
    pub(crate) positions: Vec<u32>,
}

/// Matches texts against a query.
#[derive(Debug)]
pub(crate) struct FuzzyMatcher {
    matcher: Matcher,
    query: FuzzyQuery,
    /// Characters of the current text if it is not ASCII.
    characters: Vec<char>,
}

impl FuzzyMatcher {
    /// Creates a matcher for paths: words begin behind slashes above all.
    pub(crate) fn of_paths(query: FuzzyQuery) -> Self {
        Self::new(Config::DEFAULT.match_paths(), query)
    }

    /// Creates a matcher for names, which prefers their beginning.
    pub(crate) fn of_names(query: FuzzyQuery) -> Self {
        let mut config = Config::DEFAULT;
        config.prefer_prefix = true;
        Self::new(config, query)
    }

    fn new(mut config: Config, query: FuzzyQuery) -> Self {
        config.ignore_case = query.ignores_case;
        config.normalize = query.ignores_accents;
        Self { matcher: Matcher::new(config), query, characters: Vec::new() }
    }

    /// Returns the score of a text, which is 0 for the empty query; `None` if it does not match.
    pub(crate) fn score(&mut self, text: &str) -> Option<u16> {
        let haystack = haystack(text, &mut self.characters);
        self.matcher.fuzzy_match(haystack, self.query.needle())
    }

    /// Returns where a text matches.
    pub(crate) fn find(&mut self, text: &str) -> Option<FuzzyMatch> {
        let mut positions = Vec::new();
        let haystack = haystack(text, &mut self.characters);
        let score = self.matcher.fuzzy_indices(haystack, self.query.needle(), &mut positions)?;
        Some(FuzzyMatch { score, positions })
    }

    /// Returns where a text has the characters of the query without others between them.
    pub(crate) fn find_substring(&mut self, text: &str) -> Option<FuzzyMatch> {
        let mut positions = Vec::new();
        let haystack = haystack(text, &mut self.characters);
        let score =
            self.matcher.substring_indices(haystack, self.query.needle(), &mut positions)?;
        Some(FuzzyMatch { score, positions })
    }
}

/// Returns a text in the form of the matcher, with one position for each character.
fn haystack<'a>(text: &'a str, characters: &'a mut Vec<char>) -> Utf32Str<'a> {
    if text.is_ascii() {
        return Utf32Str::Ascii(text.as_bytes());
    }
    characters.clear();
    characters.extend(text.chars());
    Utf32Str::Unicode(characters)
}
