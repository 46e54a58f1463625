//! A query for paths: how far a path matches it, and how well a name does.

use super::character_set::CharacterSet;
use crate::fuzzy_matcher::FuzzyQuery;

/// How the part of a query after its last slash is in a name. A better match is less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NameMatch {
    /// It is the name, or the name without its extension.
    Whole,
    Prefix,
    Substring,
    /// Its characters are in the name, with others between them.
    Scattered,
    /// Some of its characters are in directories.
    Elsewhere,
}

impl NameMatch {
    /// Returns what the match adds to the score of a path. A matched character is worth 16.
    pub(super) fn bonus(self) -> u32 {
        match self {
            Self::Whole => 32,
            Self::Prefix => 16,
            Self::Substring => 8,
            Self::Scattered => 4,
            Self::Elsewhere => 0,
        }
    }
}

/// A query for paths.
#[derive(Debug)]
pub(super) struct PathQuery {
    pub(super) fuzzy: FuzzyQuery,
    /// Number of characters up to the last slash.
    directory: usize,
    /// The characters from each one to the last.
    rests: Vec<CharacterSet>,
    /// The form of each ASCII character that is compared.
    folded: [u8; 256],
}

impl PathQuery {
    /// Returns `None` if the text is too long to be a query.
    pub(super) fn new(text: &str) -> Option<Self> {
        let fuzzy = FuzzyQuery::new(text)?;
        let slash = fuzzy.characters().iter().rposition(|character| *character == '/');
        let mut rest = CharacterSet::default();
        let mut rests = vec![rest];
        for character in fuzzy.characters().iter().rev() {
            rest = rest.with(CharacterSet::sought(*character));
            rests.push(rest);
        }
        rests.reverse();
        let mut folded = [0; 256];
        for byte in 0..=u8::MAX {
            folded[usize::from(byte)] = fuzzy.folded_byte(byte);
        }
        Some(Self { directory: slash.map_or(0, |slash| slash + 1), fuzzy, rests, folded })
    }

    pub(super) fn len(&self) -> usize {
        self.fuzzy.characters().len()
    }

    /// Returns true if the query is empty or ends with a slash: it asks for what is in a directory.
    pub(super) fn is_listing(&self) -> bool {
        self.directory == self.len()
    }

    pub(super) fn has_directory(&self) -> bool {
        self.directory > 0
    }

    /// Returns the characters that a name must have, if its directory has the first `matched` of the query.
    pub(super) fn rest(&self, matched: usize) -> CharacterSet {
        self.rests[matched]
    }

    /// Returns how many characters of the query a path has in their order, if its directory has `matched` of them.
    pub(super) fn advance(&self, matched: usize, name: &str, characters: CharacterSet) -> usize {
        let mut at = matched;
        match self.fuzzy.ascii() {
            Some(sought) if characters.is_ascii() => {
                for byte in name.as_bytes() {
                    if at == sought.len() {
                        break;
                    }
                    if self.folded[usize::from(*byte)] == sought[at] {
                        at += 1;
                    }
                }
            }
            Some(_) | None => {
                for character in name.chars() {
                    let Some(next) = self.fuzzy.characters().get(at) else { break };
                    at += usize::from(self.fuzzy.folded(character) == *next);
                }
            }
        }
        at
    }

    /// Returns true if the path of a directory ends with the query's part up to its last slash.
    pub(super) fn is_end_of(&self, directory: &str) -> bool {
        let mut folded = directory.chars().rev().map(|character| self.fuzzy.folded(character));
        let sought = &self.fuzzy.characters()[..self.directory];
        sought.iter().rev().all(|character| folded.next() == Some(*character))
    }

    /// Returns how the part of the query after its last slash is in a name. A match that is worse than `worst` may be
    /// reported as elsewhere.
    pub(super) fn name_match(
        &self,
        name: &str,
        characters: CharacterSet,
        worst: NameMatch,
        buffers: &mut NameBuffers,
    ) -> NameMatch {
        if self.is_listing() || !characters.contains(self.rests[self.directory]) {
            return NameMatch::Elsewhere;
        }
        let name = name.strip_suffix('/').unwrap_or(name);
        match self.fuzzy.ascii() {
            Some(sought) if characters.is_ascii() => {
                let folded = &mut buffers.bytes;
                folded.clear();
                folded.extend_from_slice(name.as_bytes());
                for byte in folded.as_mut_slice() {
                    *byte = self.folded[usize::from(*byte)];
                }
                name_match(folded.as_slice(), &sought[self.directory..], b'.', worst)
            }
            Some(_) | None => {
                let folded = &mut buffers.characters;
                folded.clear();
                folded.extend(name.chars().map(|character| self.fuzzy.folded(character)));
                name_match(folded, &self.fuzzy.characters()[self.directory..], '.', worst)
            }
        }
    }
}

/// Memory for the folded form of a name.
#[derive(Debug, Default)]
pub(super) struct NameBuffers {
    bytes: Vec<u8>,
    characters: Vec<char>,
}

fn name_match<T: Copy + PartialEq>(
    name: &[T],
    sought: &[T],
    dot: T,
    worst: NameMatch,
) -> NameMatch {
    if name.starts_with(sought) {
        let is_whole = match &name[sought.len()..] {
            [] => true,
            [first, rest @ ..] => *first == dot && !rest.contains(&dot),
        };
        return if is_whole { NameMatch::Whole } else { NameMatch::Prefix };
    }
    if worst <= NameMatch::Prefix {
        return NameMatch::Elsewhere;
    }
    for start in 1..name.len() {
        if name[start] == sought[0] && name[start..].starts_with(sought) {
            return NameMatch::Substring;
        }
    }
    let mut at = 0;
    for one in name {
        if at < sought.len() && *one == sought[at] {
            at += 1;
        }
    }
    if at == sought.len() { NameMatch::Scattered } else { NameMatch::Elsewhere }
}
