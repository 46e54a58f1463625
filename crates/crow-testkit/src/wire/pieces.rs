//! Splitting of a text into the deltas of a stream.

use std::num::NonZeroUsize;

/// Size of the deltas. The concatenated pieces always equal the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeltaSize {
    /// Words with their leading white space, as from a tokenizer, of at most 16 characters.
    #[default]
    Words,
    /// Pieces of a fixed number of characters.
    Chars(NonZeroUsize),
    /// A single piece.
    Whole,
}

const LONGEST_WORD: usize = 16;

impl DeltaSize {
    /// Returns pieces of `size` characters; zero counts as one.
    pub fn chars(size: usize) -> Self {
        Self::Chars(NonZeroUsize::new(size).unwrap_or(NonZeroUsize::MIN))
    }

    /// Splits `text`; an empty text has no pieces.
    pub fn cut(self, text: &str) -> Vec<&str> {
        match self {
            Self::Words => cut_where(text, |length, previous, next| {
                length >= LONGEST_WORD || (next.is_whitespace() && !previous.is_whitespace())
            }),
            Self::Chars(size) => cut_where(text, |length, _, _| length >= size.get()),
            Self::Whole => cut_where(text, |_, _, _| false),
        }
    }
}

/// Splits `text` before each character at which `is_cut` (length of the piece in characters, previous, next) returns
/// true.
fn cut_where(text: &str, is_cut: impl Fn(usize, char, char) -> bool) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut rest, mut length, mut previous) = (text, 0, None);
    let mut rest_start = 0;
    for (position, next) in text.char_indices() {
        if let Some(previous) = previous
            && is_cut(length, previous, next)
            && let Some((piece, tail)) = rest.split_at_checked(position - rest_start)
        {
            pieces.push(piece);
            (rest, rest_start, length) = (tail, position, 0);
        }
        length += 1;
        previous = Some(next);
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_leading_space_and_join_to_the_text() {
        assert_eq!(DeltaSize::Words.cut("Hello big  world\n"), ["Hello", " big", "  world", "\n"]);
        assert_eq!(DeltaSize::Words.cut(""), Vec::<&str>::new());
        let long = "Donaudampfschifffahrt über é日本語".repeat(3);
        for pieces in [DeltaSize::Words, DeltaSize::chars(1), DeltaSize::chars(7), DeltaSize::Whole]
        {
            assert_eq!(pieces.cut(&long).concat(), long);
        }
        assert_eq!(DeltaSize::chars(2).cut("日本語"), ["日本", "語"]);
    }
}
