//! Other spellings of the words of a shell text.

/// Open brace in a shell text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenBrace {
    /// Of a group, a list or an expansion without a value: it stays.
    Kept,
    /// Of an expansion with a value.
    Value,
    /// Of an expansion whose value follows a pattern and a slash.
    Pattern,
}

/// Returns the spellings of a shell text that differ from it: without continued lines, with the characters that the escapes of
/// `$'…'` mean, and with the values of expansions in their place (`${CHECK:-tools/check.sh}`), once joined with what is around
/// them and once apart.
///
/// A shell may read the text in any of them. It is no parser of a shell: for a search for names of files, where a superfluous
/// word does no harm. Takes linear time.
#[must_use]
pub fn shell_spellings(text: &str) -> Vec<String> {
    let decoded = decode_escapes(&text.replace("\\\n", ""));
    let mut spellings = Vec::new();
    if decoded.contains("${") {
        spellings.extend(["", " "].map(|separator| replace_expansions(&decoded, separator)));
    }
    spellings.push(decoded);
    spellings.retain(|spelling| spelling != text);
    spellings.dedup();
    spellings
}

/// Replaces the escapes of `$'…'` by their characters. The quotes themselves are not looked for, since they may be nested.
fn decode_escapes(text: &str) -> String {
    if !text.contains("$'") {
        return text.to_owned();
    }
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '$']) {
        decoded.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(quoted) = rest.strip_prefix("$'") {
            decoded.push('\'');
            rest = quoted;
            continue;
        }
        let (character, length) = escaped_character(rest).unwrap_or((rest.as_bytes()[0].into(), 1));
        decoded.push(character);
        rest = &rest[length..];
    }
    decoded.push_str(rest);
    decoded
}

/// Returns the character that an escape with a number at the beginning of a text means, and the length of the escape in bytes.
fn escaped_character(text: &str) -> Option<(char, usize)> {
    let (_, rest) = text.split_at_checked(1)?;
    let (start, radix, most) = match rest.as_bytes().first()? {
        b'x' if text.starts_with('\\') => (2, 16, 2),
        b'u' if text.starts_with('\\') => (2, 16, 4),
        b'U' if text.starts_with('\\') => (2, 16, 8),
        b'0'..=b'7' if text.starts_with('\\') => (1, 8, 3),
        _ => return None,
    };
    let digits = text[start..].bytes().take(most);
    let count = digits.take_while(|digit| char::from(*digit).is_digit(radix)).count();
    let number = u32::from_str_radix(&text[start..start + count], radix).ok()?;
    Some((char::from_u32(number).filter(|character| *character != '\0')?, start + count))
}

/// Puts the values of expansions in their place, with a separator on both sides. Expansions without a value stay.
fn replace_expansions(text: &str, separator: &str) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut open = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}', '/']) {
        let (before, from) = rest.split_at(at);
        replaced.push_str(before);
        rest = &from[1..];
        match (&from[..1], open.last_mut()) {
            ("{", _) if before.ends_with('$') => {
                let (operator, brace) = expansion_operator(rest);
                open.push(brace);
                if brace == OpenBrace::Kept {
                    replaced.push('{');
                } else {
                    replaced.pop();
                    replaced.push_str(separator);
                    rest = operator;
                }
            }
            ("{", _) => {
                open.push(OpenBrace::Kept);
                replaced.push('{');
            }
            ("}", _) => match open.pop() {
                Some(OpenBrace::Value | OpenBrace::Pattern) => replaced.push_str(separator),
                Some(OpenBrace::Kept) | None => replaced.push('}'),
            },
            (_, Some(brace @ OpenBrace::Pattern)) => {
                *brace = OpenBrace::Value;
                replaced.push(' ');
            }
            (_, Some(OpenBrace::Kept | OpenBrace::Value) | None) => replaced.push('/'),
        }
    }
    replaced.push_str(rest);
    replaced
}

/// Returns what follows the operator of an expansion, and its kind. `inner` begins behind `${`.
fn expansion_operator(inner: &str) -> (&str, OpenBrace) {
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let name = inner.strip_prefix('!').unwrap_or(inner);
    let behind = name.trim_start_matches(is_name);
    // Parameters that are one sign: `${@:-x}`.
    let behind = if behind.len() == name.len() {
        behind.strip_prefix(['@', '*', '#', '?', '-', '$']).unwrap_or(behind)
    } else {
        behind
    };
    // An element of a list: `${files[0]:-x}`.
    let behind = match behind.strip_prefix('[').and_then(|index| index.split_once(']')) {
        Some((index, behind)) if index.len() < 32 => behind,
        Some(_) | None => behind,
    };
    let value = behind.strip_prefix(':').unwrap_or(behind);
    if let Some(value) = value.strip_prefix(['-', '=', '+', '?']) {
        return (value, OpenBrace::Value);
    }
    match behind.strip_prefix('/') {
        Some(pattern) => (pattern.strip_prefix('/').unwrap_or(pattern), OpenBrace::Pattern),
        None => (inner, OpenBrace::Kept),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_escapes_and_continued_lines_are_replaced() {
        for (text, expected) in [
            ("exec \"${CHECK:-tools/a}\"", "exec \"tools/a\""),
            ("exec ${CHECK-tools/a}", "exec tools/a"),
            ("${X:+tools/a} b", "tools/a b"),
            ("${X:=tools/a}", "tools/a"),
            ("${1:-tools/a}", "tools/a"),
            ("${@:-tools/a}", "tools/a"),
            ("${files[0]:-tools/a}", "tools/a"),
            ("tools/${X:-a}", "tools/a"),
            ("x${X:-tools/a}y", "x tools/a y"),
            ("${X:-${TOP}/tools/a}", "${TOP}/tools/a"),
            ("${X:-${Y:-tools/a}}", "tools/a"),
            ("${X/old/tools/a}", "old tools/a"),
            ("{ ${X:-tools/a}; }", "{ tools/a; }"),
            ("$'\\x74ools/a'", "'tools/a'"),
            ("$'\\164ools\\u002fa'", "'tools/a'"),
            ("to\\\nols/a", "tools/a"),
        ] {
            let spellings = shell_spellings(text);
            assert!(spellings.iter().any(|spelling| spelling == expected), "{text}: {spellings:?}");
        }
    }

    #[test]
    fn texts_of_one_spelling_have_no_other() {
        for text in ["sh tools/a", "echo a{b,c}", "$HOME/a \\x41", "'\\164'", ""] {
            assert!(shell_spellings(text).is_empty(), "{text}");
        }
        // Expansions without a value stay as they are.
        assert!(shell_spellings("${TOP}/tools/a").is_empty());
    }

    proptest! {
        #[test]
        fn no_text_makes_a_spelling_fail(text in "[a-z0-7xu$'\\\\{}/:\\-=?#\\[\\]é\n]{0,40}") {
            for spelling in shell_spellings(&text) {
                prop_assert!(spelling.len() <= text.len() * 2);
            }
        }
    }
}
