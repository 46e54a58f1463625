//! Repair of JSON escapes that are not characters.

use std::borrow::Cow;

/// Returns the JSON with U+FFFD in place of each unpaired half of a surrogate pair. Some servers split a character
/// where a token ends; no parser accepts such a text, although the rest of it is right.
pub(crate) fn without_lone_surrogates(json: &str) -> Cow<'_, str> {
    if !json.contains("\\ud") && !json.contains("\\uD") {
        return Cow::Borrowed(json);
    }
    let mut readable = String::with_capacity(json.len());
    let mut rest = json;
    while let Some((before, escape)) = rest.find('\\').and_then(|at| rest.split_at_checked(at)) {
        readable.push_str(before);
        let length = match (unit(escape), escape.get(6..).and_then(unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                readable.push_str("\\ufffd");
                rest = &escape[6..];
                continue;
            }
            // A backslash and what it escapes, such as another backslash.
            (_, _) => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
        let (unchanged, tail) = escape.split_at_checked(length).unwrap_or((escape, ""));
        readable.push_str(unchanged);
        rest = tail;
    }
    readable.push_str(rest);
    Cow::Owned(readable)
}

/// Returns the number of an escape such as `\ud83d` at the beginning of a text.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unpaired_surrogates_are_replaced() {
        for (json, expected) in [
            (r#""plain""#, r#""plain""#),
            (r#""\ud83d\udc26""#, r#""\ud83d\udc26""#),
            (r#""\uD83D\uDC26 \u00e4\n""#, r#""\uD83D\uDC26 \u00e4\n""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\udc26""#, r#""\ufffd""#),
            (r#""\ud83d\ud83d\udc26""#, r#""\ufffd\ud83d\udc26""#),
            (r#""\ud83dx\udc26""#, r#""\ufffdx\ufffd""#),
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""\\\ud83d""#, r#""\\\ufffd""#),
            (r#""\ud8é""#, r#""\ud8é""#),
            (r#""\ud8"#, r#""\ud8"#),
            (r"\ud83d\", r"\ufffd\"),
            (r"\ud83d\é", r"\ufffd\é"),
        ] {
            assert_eq!(without_lone_surrogates(json), expected, "{json}");
        }
    }
}
