//! Text of others as one line of bounded width and length.

use crow_text::one_line;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::visible_characters::cluster_form;

/// Returns the harmless form of `text` as one line of at most `columns` columns, which ends with `…` if it is cut. A
/// character with many marks is cut as well, so that the length in bytes is bounded too.
pub(crate) fn bounded_line(text: &str, columns: usize) -> String {
    let line = one_line(text);
    let mut bounded = String::new();
    // Length and width up to the last place where `…` still fits.
    let (mut cut, mut used) = (0, 0);
    for cluster in line.graphemes(true) {
        let form = cluster_form(cluster);
        used += form.text.width();
        if used > columns {
            bounded.truncate(cut);
            if columns > 0 {
                bounded.push('…');
            }
            return bounded;
        }
        bounded.push_str(&form.text);
        if used < columns {
            cut = bounded.len();
        }
    }
    bounded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_harmless_and_fits() {
        let table = [
            ("", 5, ""),
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("abcd", 1, "…"),
            ("abcd", 0, ""),
            ("漢字", 4, "漢字"),
            ("漢字", 3, "漢…"),
            ("漢字", 2, "…"),
            ("a\nb\t c", 9, "a b c"),
            ("a\u{1b}]0;x\u{7}", 20, "a␛]0;x␇"),
            ("\u{9b}2J", 20, "\\u{9b}2J"),
            ("a\u{202e}b", 20, "a\\u{202e}b"),
        ];
        for (text, columns, expected) in table {
            assert_eq!(bounded_line(text, columns), expected, "{text:?} {columns}");
        }
    }

    #[test]
    fn marks_without_width_are_bounded() {
        let line = bounded_line(&format!("a{}", "\u{301}".repeat(5000)), 10);
        assert!(line.len() < 100, "{}", line.len());
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_columns(text in "(\\PC|[\u{0}-\u{a0}\u{202e}\u{301}👩漢]){0,40}", columns in 0_usize..20) {
            let line = bounded_line(&text, columns);
            prop_assert!(line.width() <= columns, "{line:?}");
            prop_assert!(!line.contains(|character: char| character.is_control()));
        }
    }
}
