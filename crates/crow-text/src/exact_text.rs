//! Exact display of text that the user is asked to approve.

use crate::{lookalike, neutralise};

/// Returns the harmless form of text to approve. Unusual spaces and look-alike letters are escaped, because programs
/// treat them differently from the usual ones and the user must see that.
pub fn approval_text(text: &str) -> String {
    let harmless = neutralise(text);
    if harmless.is_ascii() {
        return harmless;
    }
    let mut shown = String::with_capacity(harmless.len());
    let mut last = None;
    for character in harmless.chars() {
        let is_odd_space = character.is_whitespace() && !matches!(character, ' ' | '\n' | '\t');
        // A selector does not change a letter: here it only makes two different names look alike.
        let is_idle_selector = matches!(character, '\u{fe0e}' | '\u{fe0f}')
            && last.is_none_or(|last: char| last.is_ascii() || last.is_alphanumeric());
        if is_odd_space || is_idle_selector {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
        last = Some(character);
    }
    lookalike::escape_lookalikes(&shown)
}

/// Returns the same as one line: ASCII white space becomes single spaces.
pub fn approval_line(text: &str) -> String {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    approval_text(&words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tricks that make an approval look like another one.
    #[test]
    fn nothing_is_hidden_in_text_to_approve() {
        let table = [
            ("ls\u{1b}[8m; rm -rf x\u{1b}[0m", "ls␛[8m; rm -rf x␛[0m"),
            ("ls\u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{7}", "ls␛]8;;http://x␇link␛]8;;␇"),
            ("ls\u{9b}2K\u{9d}0;t\u{9c}", "ls\\u{9b}2K\\u{9d}0;t\\u{9c}"),
            ("rm -rf /\rls -l", "rm -rf / ls -l"),
            ("a\u{8}\u{8}b", "a␈␈b"),
            ("rm\u{a0}-rf\u{2003}\u{3000}x", "rm\\u{a0}-rf\\u{2003}\\u{3000}x"),
            (
                "a\u{202a}b\u{202b}c\u{202c}d\u{202d}e\u{202e}",
                "a\\u{202a}b\\u{202b}c\\u{202c}d\\u{202d}e\\u{202e}",
            ),
            ("\u{2066}a\u{2067}b\u{2068}c\u{2069}", "\\u{2066}a\\u{2067}b\\u{2068}c\\u{2069}"),
            (
                "a\u{200b}b\u{200c}c\u{200d}d\u{2060}e\u{feff}",
                "a\\u{200b}b\\u{200c}c\\u{200d}d\\u{2060}e\\u{feff}",
            ),
            ("x\u{e0072}\u{e006d}\u{e007f}", "x\\u{e0072}\\u{e006d}\\u{e007f}"),
            ("x\u{fe00}\u{e0100}\u{e01ef}", "x\\u{fe00}\\u{e0100}\\u{e01ef}"),
            ("x\u{3164}\u{115f}\u{1160}\u{ffa0}y", "x\\u{3164}\\u{115f}\\u{1160}\\u{ffa0}y"),
            ("pass\u{ad}word\u{34f}", "pass\\u{ad}word\\u{34f}"),
            ("x\u{2800}\u{2800};y\u{2028}z\u{2029}", "x\\u{2800}\\u{2800};y\\u{2028}z\\u{2029}"),
            ("x\u{180e}y\u{61c}z\u{17b4}", "x\\u{180e}y\\u{61c}z\\u{17b4}"),
            ("ls   \t\n  -l", "ls -l"),
            ("grün 漢字 👩\u{200d}💻", "grün 漢字 👩\u{200d}💻"),
        ];
        for (given, expected) in table {
            assert_eq!(approval_line(given), expected, "{given:?}");
        }
    }

    #[test]
    fn a_variation_selector_is_shown_where_it_varies_nothing() {
        assert_eq!(approval_text("a\u{fe0f}b"), "a\\u{fe0f}b");
        assert_eq!(approval_text("⚠\u{fe0f} x"), "⚠\u{fe0f} x");
    }
}
