//! Three-way merge within changed lines whose old text differs from the file in quotes, dashes or blanks.
//!
//! All lines are split into tokens, so that a token of the old text has the same index in the file. The alignment of
//! old and new tokens decides which ones the edit keeps; of those the file's spelling is copied.
//!
//! Invariant: a token that old and new text share keeps the bytes of the file; where that is not certain the merge is
//! refused.

use std::ops::Range;

use super::{align::align, error::InexactMatchProblem, lines::Tolerance};

/// The token that separates lines.
const BREAK: &str = "\n";

/// Merges the bodies of lines: one for each of `new`. `old` and `file` are the same lines up to tolerated differences.
pub(crate) fn merge_bodies(
    old: &[&str],
    file: &[&str],
    new: &[&str],
) -> Result<Vec<String>, InexactMatchProblem> {
    let (old, file, new) = (tokens(old), tokens(file), tokens(new));
    let is_break = |token: &&str| *token == BREAK;
    if !old.iter().map(is_break).eq(file.iter().map(is_break)) {
        return Err(InexactMatchProblem::Contested);
    }
    let aligned = align(&old, &new).ok_or(InexactMatchProblem::Contested)?;
    // Tokens that the file spells differently must each have a certain fate.
    let foreign: Vec<usize> = (0..old.len()).filter(|index| old[*index] != file[*index]).collect();
    if aligned.contested.iter().any(|index| foreign.contains(index)) {
        return Err(InexactMatchProblem::Contested);
    }
    let merge = TokenMerge { old, file, new, pairs: aligned.pairs };
    if foreign.into_iter().all(|index| merge.is_sure(index)) {
        Ok(merge.lines())
    } else {
        Err(InexactMatchProblem::Rewritten)
    }
}

struct TokenMerge<'a> {
    old: Vec<&'a str>,
    file: Vec<&'a str>,
    new: Vec<&'a str>,
    pairs: Vec<(usize, usize)>,
}

impl TokenMerge<'_> {
    /// Returns true if it is certain whether a token that the file spells differently is kept.
    fn is_sure(&self, index: usize) -> bool {
        let token = self.old[index];
        let at = self.pairs.partition_point(|pair| pair.0 < index);
        let pair = self.pairs.get(at).copied().filter(|pair| pair.0 == index);
        // A kept token must be next to another kept one, in a line that is still the same.
        let stays = pair.is_none_or(|pair| self.is_beside_kept(pair) && self.keeps_line(index));
        // Blanks are everywhere, so only those between the same kept neighbours count.
        let range = if kind_of(token) == TokenKind::Blank {
            let before = at.checked_sub(1).and_then(|before| self.pairs.get(before));
            before.map_or(0, |pair| pair.1 + 1)
                ..self.pairs.get(at).map_or(self.new.len(), |pair| pair.1)
        } else {
            0..self.new.len()
        };
        stays && !self.adds(token, range)
    }

    /// Returns true if the new text adds a token like this one: the model's spelling of what the file spells
    /// differently.
    fn adds(&self, token: &str, range: Range<usize>) -> bool {
        range
            .filter(|index| self.pairs.binary_search_by_key(index, |pair| pair.1).is_err())
            .any(|index| Tolerance::InnerBlanks.accepts(&padded(token), &padded(self.new[index])))
    }

    /// Returns true if the token before or after a kept one is kept with it.
    fn is_beside_kept(&self, (old, new): (usize, usize)) -> bool {
        let is_kept = |pair: (usize, usize)| self.pairs.binary_search(&pair).is_ok();
        let before = old.checked_sub(1).zip(new.checked_sub(1));
        (old, new) == (0, 0) || before.is_some_and(is_kept) || is_kept((old + 1, new + 1))
    }

    /// Returns true if the token's line still begins with the same token and keeps a word, so that it is the same
    /// line.
    fn keeps_line(&self, index: usize) -> bool {
        let is_break =
            |tokens: &[&str], index: usize| tokens.get(index).is_none_or(|token| *token == BREAK);
        let start = (0..index).rev().find(|at| is_break(&self.old, *at)).map_or(0, |at| at + 1);
        let end =
            (index..self.old.len()).find(|at| is_break(&self.old, *at)).unwrap_or(self.old.len());
        let kept = || self.pairs.iter().filter(|pair| (start..end).contains(&pair.0));
        let is_first =
            |at: usize| at.checked_sub(1).is_none_or(|before| is_break(&self.new, before));
        let is_word =
            |at: usize| self.old.get(at).is_some_and(|token| kind_of(token) == TokenKind::Word);
        kept().next().is_some_and(|pair| pair.0 == start && is_first(pair.1))
            && kept().any(|pair| is_word(pair.0))
    }

    /// Joins the new tokens, with the file's spelling of the kept ones, to lines.
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut line = String::new();
        let mut new_at = 0;
        for &(old, new) in
            self.pairs.iter().chain(std::iter::once(&(self.old.len(), self.new.len())))
        {
            let added = &self.new[new_at..new];
            // New tokens before the pair, then the kept one as the file spells it.
            for token in added.iter().chain(self.file.get(old)) {
                if *token == BREAK {
                    lines.push(std::mem::take(&mut line));
                } else {
                    line.push_str(token);
                }
            }
            new_at = new + 1;
        }
        lines
    }
}

/// Protects a token of blanks from being trimmed before it is compared.
fn padded(token: &str) -> String {
    format!("|{token}|")
}

/// Splits every line into words, runs of blanks and single other characters, each line followed by a break.
fn tokens<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let mut tokens = Vec::new();
    for line in lines {
        let mut rest = *line;
        while let Some(first) = rest.chars().next() {
            // Words and blanks extend as far as their kind; signs are single.
            let end = rest
                .char_indices()
                .find(|(at, char)| {
                    *at > 0 && (kind(*char) != kind(first) || kind(first) == TokenKind::Sign)
                })
                .map_or(rest.len(), |(at, _)| at);
            let (token, behind) = rest.split_at(end);
            tokens.push(token);
            rest = behind;
        }
        tokens.push(BREAK);
    }
    tokens
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenKind {
    Word,
    Blank,
    Sign,
}

fn kind_of(token: &str) -> TokenKind {
    token.chars().next().map_or(TokenKind::Blank, kind)
}

fn kind(char: char) -> TokenKind {
    if char.is_whitespace() {
        TokenKind::Blank
    } else if char.is_alphanumeric() || char == '_' {
        TokenKind::Word
    } else {
        TokenKind::Sign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_quotes_and_blanks_stay_as_in_the_file() {
        let merged = merge_bodies(
            &["say(\"a b\", 1)"],
            &["say(\u{201c}a  b\u{201d}, 1)"],
            &["say(\"a b\", 2)"],
        );
        assert_eq!(merged.unwrap(), ["say(\u{201c}a  b\u{201d}, 2)"]);
    }

    #[test]
    fn a_removed_quote_is_no_obstacle() {
        let merged = merge_bodies(&["don't go"], &["don\u{2019}t go"], &["do not go"]);
        assert_eq!(merged.unwrap(), ["do not go"]);
    }

    #[test]
    fn a_quote_that_would_come_back_in_ascii_is_refused() {
        let merged = merge_bodies(&["'a'"], &["\u{2018}a'"], &["f('b)"]);
        assert!(merged.is_err(), "{merged:?}");
    }

    #[test]
    fn a_quote_that_could_be_either_of_two_is_refused() {
        let merged = merge_bodies(&["\"a\" \"b\""], &["\u{201c}a\" \"b\""], &["\"b\""]);
        assert_eq!(merged, Err(InexactMatchProblem::Contested));
    }

    #[test]
    fn a_quote_is_not_carried_over_to_another_text() {
        assert_eq!(
            merge_bodies(&["it's"], &["it\u{2019}s"], &["say('it')"]),
            Err(InexactMatchProblem::Rewritten)
        );
        assert_eq!(
            merge_bodies(&["\"q\""], &["\u{201c}q\u{201d}"], &["print(\"q\")"]),
            Err(InexactMatchProblem::Rewritten)
        );
    }

    #[test]
    fn a_blank_run_that_the_change_touches_is_refused_when_the_new_text_has_one_there() {
        let merged = merge_bodies(&["f(a, b)"], &["f(a,  b)"], &["f(x y)"]);
        assert_eq!(merged, Err(InexactMatchProblem::Rewritten));
        let merged = merge_bodies(&["a = b # c"], &["a = b    # c"], &["a = d # c"]);
        assert_eq!(merged.unwrap(), ["a = d    # c"]);
    }

    #[test]
    fn lines_may_be_split_and_added() {
        let merged = merge_bodies(
            &["a('x'); b()"],
            &["a(\u{2018}x\u{2019}); b()"],
            &["a('x');", "c()", "b()"],
        );
        assert_eq!(merged.unwrap(), ["a(\u{2018}x\u{2019});", "c()", "b()"]);
    }
}
