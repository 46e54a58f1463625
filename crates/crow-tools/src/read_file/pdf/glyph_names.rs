//! The characters that the names of glyphs stand for.

use std::{collections::HashMap, sync::LazyLock};

/// Characters by name. Lines begin with a code point and have its names; `lopdf` knows the same names, by 440 kB of code.
static CHARACTERS: LazyLock<HashMap<&str, char>> = LazyLock::new(|| {
    let lines = include_str!("glyph_names.txt").lines().filter(|line| !line.starts_with('#'));
    let entries = lines.filter_map(|line| {
        let (code, names) = line.split_once(' ')?;
        let character = ordinary_character(u32::from_str_radix(code, 16).ok()?)?;
        Some(names.split(' ').map(move |name| (name, character)))
    });
    entries.flatten().collect()
});

/// Returns the character of a code point. Old-style digits and small capitals have private ones, by the codes of the
/// ordinary characters.
fn ordinary_character(code: u32) -> Option<char> {
    match code {
        0xf720..=0xf7ff => char::from_u32(code & 0xff),
        code => char::from_u32(code),
    }
}

/// Returns the text of a glyph, as in the specification of the Adobe Glyph List: `f_i.alt` is a form of the characters
/// `f` and `i`, and `uni20AC` is a code point. Returns `None` if the name says nothing.
pub(super) fn text_of_glyph(name: &[u8]) -> Option<String> {
    let name = str::from_utf8(name).ok()?;
    let name = name.split_once('.').map_or(name, |(name, _)| name);
    name.split('_').map(character_of_part).collect()
}

fn character_of_part(name: &str) -> Option<char> {
    CHARACTERS.get(name).copied().or_else(|| {
        let digits = name.strip_prefix("uni").filter(|digits| digits.len() == 4);
        let digits = digits
            .or_else(|| name.strip_prefix('u').filter(|digits| (4..=6).contains(&digits.len())))?;
        let is_hexadecimal = digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'A'..=b'F'));
        ordinary_character(u32::from_str_radix(digits, 16).ok().filter(|_| is_hexadecimal)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_glyphs_stand_for_characters() {
        for (name, text) in [
            ("A", "A"),
            ("Aacute", "Á"),
            ("afii10017", "А"),
            ("fi", "ﬁ"),
            ("f_f_i", "ffi"),
            ("a.sc", "a"),
            ("seven.oldstyle", "7"),
            ("sevenoldstyle", "7"),
            ("uni20AC", "€"),
            ("u1F600", "😀"),
            ("space", " "),
        ] {
            assert_eq!(text_of_glyph(name.as_bytes()).as_deref(), Some(text), "{name}");
        }
        for name in ["", ".notdef", "g17", "uni20a", "uniD800", "u20ac", "A_g17"] {
            assert_eq!(text_of_glyph(name.as_bytes()), None, "{name}");
        }
        assert_eq!(text_of_glyph(b"\xff"), None);
    }

    #[test]
    fn every_name_in_the_list_is_unique() {
        let lines = include_str!("glyph_names.txt").lines().filter(|line| !line.starts_with('#'));
        let names = lines.map(|line| line.split(' ').count() - 1).sum::<usize>();
        assert_eq!(CHARACTERS.len(), names);
    }
}
