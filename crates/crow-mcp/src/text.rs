//! Sanitising of texts from servers.

use crow_text::{is_unseen, shorten};

/// Removes what terminals interpret and what is invisible: escape sequences, control characters, marks of writing
/// direction, and letters that only a model can read.
pub(crate) fn sanitise(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            '\u{1b}' => skip_escape(&mut rest),
            '\u{9b}' => skip_until(&mut rest, |char| ('@'..='~').contains(&char)),
            '\r' if rest.peek() == Some(&'\n') => {}
            '\r' => visible.push('\n'),
            '\n' | '\t' => visible.push(char),
            _ if char.is_control() || is_hidden(char) => {}
            _ => visible.push(char),
        }
    }
    visible
}

/// Returns the text sanitised by [`sanitise`], on one line, and cut to at most `most` bytes.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    // Cut first, so that a huge text is not sanitised as a whole.
    let start = text.floor_char_boundary(most.saturating_mul(8));
    let text = sanitise(&text[..start]);
    let words: Vec<&str> = text.split_whitespace().collect();
    shorten(&words.join(" "), most)
}

fn skip_escape(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match rest.next() {
        Some('[') => skip_until(rest, |char| ('@'..='~').contains(&char)),
        Some(']' | 'P' | 'X' | '^' | '_') => {
            // A string that ends with BEL or ST. An unterminated one is removed up to the end of its line.
            while let Some(char) = rest.peek().copied() {
                if char == '\n' {
                    return;
                }
                rest.next();
                match char {
                    '\u{7}' | '\u{9c}' => return,
                    '\u{1b}' => {
                        rest.next_if_eq(&'\\');
                        return;
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

fn skip_until(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, is_last: impl Fn(char) -> bool) {
    while let Some(char) = rest.peek().copied() {
        if char == '\n' {
            return;
        }
        rest.next();
        if is_last(char) {
            return;
        }
    }
}

/// Returns true for invisible characters. Joiners and variation selectors are kept: emoji and scripts need them, and
/// alone between letters they do no harm in a text that is not approved.
fn is_hidden(char: char) -> bool {
    is_unseen(char) && !matches!(char, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escape_sequences_and_invisible_characters_are_removed() {
        for (text, shown) in [
            ("a\u{1b}[31mred\u{1b}[0m", "ared"),
            ("\u{1b}]0;title\u{7}x\u{1b}]8;;http://a\u{1b}\\link", "xlink"),
            ("\u{1b}]52;c;never ends\nnext", "\nnext"),
            ("a\r\nb\rc\td\u{8}\0", "a\nb\nc\td"),
            ("\u{9b}2Jgone", "gone"),
            ("safe\u{202e}txt.exe\u{e0041}\u{e0042}", "safetxt.exe"),
            ("a\u{ad}b\u{61c}c\u{2800}d\u{3164}e\u{34f}f", "abcdef"),
            ("👩\u{200d}💻 ok", "👩\u{200d}💻 ok"),
        ] {
            assert_eq!(sanitise(text), shown, "{text:?}");
        }
    }

    #[test]
    fn a_line_is_cut_at_a_character_boundary() {
        assert_eq!(one_line("a  b\n\u{1b}[1mc", 10), "a b c");
        assert_eq!(one_line("ääää", 6), "ä…");
    }

    proptest! {
        #[test]
        fn sanitising_is_idempotent(text in any::<String>()) {
            let once = sanitise(&text);
            prop_assert_eq!(sanitise(&once), once.clone());
            prop_assert!(!once.chars().any(|char| char.is_control() && !"\n\t".contains(char)));
        }
    }
}
