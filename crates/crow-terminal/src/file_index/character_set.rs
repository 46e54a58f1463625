//! Sets of characters that say at once that a name does not have what is sought.

/// A set of characters without their case, of which the rare ones share a member. It may have more than it was made of,
/// and never less.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CharacterSet(u32);

impl CharacterSet {
    /// Returns the characters of a name. One that is not ASCII could be equal to any character.
    pub(super) fn of(name: &str) -> Self {
        if name.is_ascii() {
            name.chars().fold(Self::default(), |set, character| set.with(Self::sought(character)))
        } else {
            Self(u32::MAX)
        }
    }

    /// Returns the set that a name with this character has at least.
    pub(super) fn sought(character: char) -> Self {
        let member = match character.to_ascii_lowercase() {
            letter @ 'a'..='z' => u32::from(letter) - u32::from('a'),
            '0'..='9' => 26,
            '.' => 27,
            '-' | '_' => 28,
            '/' => 29,
            '\0'..='\u{7f}' => 30,
            _ => 31,
        };
        Self(1 << member)
    }

    /// Returns both together.
    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns true if all characters of the name are ASCII.
    pub(super) fn is_ascii(self) -> bool {
        self != Self(u32::MAX)
    }

    /// Returns true if all of `other` is in this one.
    pub(super) fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}
