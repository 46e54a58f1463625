//! Three-way merge within changed lines whose old text differs from the file in quotes, dashes or blanks.
//!
//! Invariant: a token that old and new text share keeps the bytes of the file; where that is not certain
//! the merge is refused.

use super::{align::align, error::Reason, lines::Tolerance};

/// What separates lines in a sequence of tokens.
const BREAK: &str = "\n";

/// Merges the bodies of lines: `old` and `file` are the same lines up to tolerated differences.
pub(crate) fn merge_bodies(
    old: &[&str],
    file: &[&str],
    new: &[&str],
) -> Result<Vec<String>, Reason> {
    let (old, file, new) = (tokens(old), tokens(file), tokens(new));
    if old.len() != file.len() {
        return Err(Reason::Contested);
    }
    let aligned = align(&old, &new).ok_or(Reason::Contested)?;
    let differs = |index: &usize| old.get(*index) != file.get(*index);
    if aligned.contested.iter().any(differs) {
        return Err(Reason::Contested);
    }
    if aligned
        .pairs
        .iter()
        .any(|pair| differs(&pair.0) && !is_supported(&old, &aligned.pairs, *pair))
    {
        return Err(Reason::Rewritten);
    }
    let mut merged = Vec::new();
    let mut line = String::new();
    let (mut old_at, mut new_at) = (0, 0);
    for &(kept_old, kept_new) in
        aligned.pairs.iter().chain(std::iter::once(&(old.len(), new.len())))
    {
        let added = new.get(new_at..kept_new).unwrap_or_default();
        refuse_rewritten(
            (old_at..kept_old).filter(differs).filter_map(|index| old.get(index)),
            added,
        )?;
        for token in added.iter().chain(file.get(kept_old)) {
            if *token == BREAK {
                merged.push(std::mem::take(&mut line));
            } else {
                line.push_str(token);
            }
        }
        (old_at, new_at) = (kept_old + 1, kept_new + 1);
    }
    Ok(merged)
}

/// Whether a kept token stands beside another kept one, or first, in a line of which a word is kept: else the new line
/// has it only by chance.
fn is_supported(old: &[&str], pairs: &[(usize, usize)], (old_at, new_at): (usize, usize)) -> bool {
    let is_kept = |pair: (usize, usize)| pairs.contains(&pair);
    let beside = is_kept((old_at + 1, new_at + 1))
        || (old_at, new_at) == (0, 0)
        || old_at.checked_sub(1).zip(new_at.checked_sub(1)).is_some_and(is_kept);
    let is_break = |index: &usize| old.get(*index).is_none_or(|token| *token == BREAK);
    let start = (0..old_at).rev().find(is_break).map_or(0, |index| index + 1);
    let end = (old_at..old.len()).find(is_break).unwrap_or(old.len());
    let word = |pair: &(usize, usize)| {
        old.get(pair.0).is_some_and(|token| token.starts_with(char::is_alphanumeric))
    };
    beside && pairs.iter().any(|pair| (start..end).contains(&pair.0) && word(pair))
}

/// A token that the file writes differently may go, but must not come back in the model's writing.
fn refuse_rewritten<'a>(
    gone: impl Iterator<Item = &'a &'a str>,
    added: &[&str],
) -> Result<(), Reason> {
    for token in gone {
        if added.iter().any(|other| Tolerance::InnerBlanks.accepts(&padded(token), &padded(other)))
        {
            return Err(Reason::Rewritten);
        }
    }
    Ok(())
}

/// Keeps a token of blanks from being trimmed away before it is compared.
fn padded(token: &str) -> String {
    format!("|{token}|")
}

/// The words, runs of blanks and single other characters of every line, each line followed by a break.
fn tokens<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let mut tokens = Vec::new();
    for line in lines {
        let mut rest = *line;
        while let Some(first) = rest.chars().next() {
            let end = rest
                .char_indices()
                .find(|(at, char)| {
                    *at > 0 && (kind(*char) != kind(first) || kind(first) == Kind::Sign)
                })
                .map_or(rest.len(), |(at, _)| at);
            let (token, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
            tokens.push(token);
            rest = behind;
        }
        tokens.push(BREAK);
    }
    tokens
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Blank,
    Sign,
}

fn kind(char: char) -> Kind {
    if char.is_whitespace() {
        Kind::Blank
    } else if char.is_alphanumeric() || char == '_' {
        Kind::Word
    } else {
        Kind::Sign
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
        assert_eq!(merged, Err(Reason::Contested));
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
