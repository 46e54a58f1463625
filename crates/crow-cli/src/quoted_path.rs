//! File names as text that can be read back: names that are not plain text are quoted as git does.

use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    fmt::Write as _,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::Path,
};

use crow_text::is_unseen;

/// Characters that git escapes within quotes, besides those that are not plain text.
const SPECIAL: &str = "\"\\";
/// Letter escapes of git, and the bytes they mean.
const LETTERS: [(u8, u8); 9] = [
    (b'a', 7),
    (b'b', 8),
    (b't', b'\t'),
    (b'n', b'\n'),
    (b'v', 11),
    (b'f', 12),
    (b'r', b'\r'),
    (b'"', b'"'),
    (b'\\', b'\\'),
];

/// Returns a UTF-8 name unchanged, any other quoted as git does, so that no two names have the same text. A name that
/// begins with a quote is quoted as well: a leading quote always means that the name is to be [`unquoted`].
pub(crate) fn path_text(path: &Path) -> Cow<'_, str> {
    match path.to_str() {
        Some(text) if !text.starts_with('"') => Cow::Borrowed(text),
        Some(_) | None => Cow::Owned(in_quotes("", path)),
    }
}

/// Returns `prefix` and a name as git writes them: in quotes with escapes unless the name is plain text.
pub(crate) fn quoted(prefix: &str, path: &Path) -> String {
    let plain = path.to_str().filter(|name| name.chars().all(|c| is_plain(c, SPECIAL)));
    match plain {
        Some(name) => format!("{prefix}{name}"),
        None => in_quotes(prefix, path),
    }
}

fn in_quotes(prefix: &str, path: &Path) -> String {
    format!("\"{prefix}{}\"", escaped(path.as_os_str().as_bytes(), SPECIAL))
}

/// Returns the name that a user typed, either plain or quoted as git does.
pub(crate) fn unquoted(name: &OsStr) -> Cow<'_, OsStr> {
    match leading_quote(name.as_bytes()) {
        Some((name, [])) => Cow::Owned(OsString::from_vec(name)),
        Some(_) | None => Cow::Borrowed(name),
    }
}

/// Splits a text into words at blanks. A quoted word is a name as git writes it, which may contain blanks.
pub(crate) fn split_words(text: &str) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = quoted_length(rest)
            .unwrap_or_else(|| rest.find(char::is_whitespace).unwrap_or(rest.len()));
        let (word, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        words.push(unquoted(OsStr::new(word)).into_owned());
        rest = after.trim_start();
    }
    words
}

/// Returns the length in bytes of the quoted word at the start of a text, if there is one.
fn quoted_length(text: &str) -> Option<usize> {
    let (_, after) = leading_quote(text.as_bytes())?;
    let is_end = after.first().is_none_or(u8::is_ascii_whitespace);
    is_end.then(|| text.len().saturating_sub(after.len()))
}

/// Decodes the quoted name at the start of a text. Returns it and the rest after the closing quote; `None` if there is
/// no such quote or an escape is invalid.
fn leading_quote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut name = Vec::new();
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return Some((name, rest)),
            b'\\' => {
                let (byte, after) = unescaped(rest)?;
                name.push(byte);
                rest = after;
            }
            byte => name.push(*byte),
        }
    }
}

/// Decodes the escape after a backslash: a letter, or three octal digits. Returns the byte and the rest.
fn unescaped(text: &[u8]) -> Option<(u8, &[u8])> {
    let (first, after) = text.split_first()?;
    if let Some((_, byte)) = LETTERS.iter().find(|(letter, _)| letter == first) {
        return Some((*byte, after));
    }
    let (digits, after) = text.split_first_chunk::<3>()?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    Some((u8::from_str_radix(digits, 8).ok()?, after))
}

fn is_plain(c: char, special: &str) -> bool {
    !special.contains(c) && !c.is_control() && !is_unseen(c)
}

/// Escapes the characters of `special` and those that are not plain text, as C does.
pub(crate) fn escaped(bytes: &[u8], special: &str) -> String {
    let mut text = String::new();
    // Bytes without a letter escape, and those of invalid UTF-8, are written in octal.
    let octal = |bytes: &[u8], text: &mut String| {
        for byte in bytes {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\{byte:03o}");
        }
    };
    let mut buffer = [0; 4];
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                character if is_plain(character, special) => text.push(character),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                character if special.contains(character) => text.extend(['\\', character]),
                character => octal(character.encode_utf8(&mut buffer).as_bytes(), &mut text),
            }
        }
        octal(chunk.invalid(), &mut text);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> OsString {
        unquoted(OsStr::new(text)).into_owned()
    }

    #[test]
    fn a_name_is_quoted_only_if_it_could_not_be_read_back() {
        let table: [(&[u8], &str); 5] = [
            (b"a b\\c.txt", "a b\\c.txt"),
            ("caf\u{e9}".as_bytes(), "caf\u{e9}"),
            (b"na\xffme.txt", "\"na\\377me.txt\""),
            (b"\xc3\xa9\n\xff\"", "\"\u{e9}\\n\\377\\\"\""),
            (b"\"a\"", "\"\\\"a\\\"\""),
        ];
        for (name, text) in table {
            let name = OsStr::from_bytes(name);
            assert_eq!(path_text(Path::new(name)), text);
            assert_eq!(read(text), name, "{text}");
        }
    }

    #[test]
    fn invalid_quoting_is_taken_literally() {
        for text in ["\"", "\"a", "a\"", "\"a\"b", "\"\\x\"", "\"\\40\"", "\"\\777\"", "\"\\+11\""]
        {
            assert_eq!(read(text), text);
        }
    }

    #[test]
    fn a_quoted_word_may_contain_blanks() {
        let table: [(&str, &[&[u8]]); 4] = [
            (" a  b ", &[b"a", b"b"]),
            ("\"a b\" c", &[b"a b", b"c"]),
            ("\"\\377 \\\"\"", &[b"\xff \""]),
            ("\"a b", &[b"\"a", b"b"]),
        ];
        for (text, expected) in table {
            let words = split_words(text);
            let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
            assert_eq!(words, expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_name_is_read_back(name in proptest::collection::vec(1_u8.., 1..20)) {
            let name = OsString::from_vec(name);
            let text = path_text(Path::new(&name)).into_owned();
            prop_assert_eq!(read(&text), name);
        }
    }
}
