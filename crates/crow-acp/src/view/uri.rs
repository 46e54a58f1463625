//! Parsing of `file:` URIs.

use std::path::PathBuf;

/// Returns the path of a `file:` URI; `None` for another scheme or another host.
pub(super) fn file_path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    if !rest.starts_with('/') {
        return None;
    }
    let path = PathBuf::from(decoded(rest)?);
    path.is_absolute().then_some(path)
}

/// Returns the line or the range of lines in the fragment of a URI: `#L3`, `#L3:7`, `#L3-L7`.
pub(super) fn lines(uri: &str) -> Option<String> {
    let (_, fragment) = uri.split_once('#')?;
    let text = fragment.strip_prefix('L')?.replace(['L', ':'], "-").replace("--", "-");
    let is_range = !text.is_empty()
        && text.len() < 32
        && text.split('-').count() <= 2
        && text
            .split('-')
            .all(|line| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()));
    is_range.then_some(text)
}

/// Decodes percent escapes; `None` if one is invalid, or the result is not UTF-8 or has control characters.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = char::from(rest.next()?).to_digit(16)?;
        let low = char::from(rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains(char::is_control))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_file_uris_are_paths() {
        let path = |uri| file_path(uri).map(|path| path.display().to_string());
        assert_eq!(path("file:///p/a%20b.rs#L3").as_deref(), Some("/p/a b.rs"));
        assert_eq!(path("file://localhost/p/a").as_deref(), Some("/p/a"));
        for other in ["file://host/p", "https://x/y", "file:///a%0ab", "file:///a%2", "a/b", ""] {
            assert_eq!(path(other), None, "{other}");
        }
    }

    #[test]
    fn line_ranges_of_a_uri_are_parsed() {
        let table = [
            ("file:///a#L3", Some("3")),
            ("file:///a#L3:7", Some("3-7")),
            ("file:///a#L3-L7", Some("3-7")),
            ("file:///a#L3-7", Some("3-7")),
            ("file:///a#section", None),
            ("file:///a#L", None),
            ("file:///a#L1-2-3", None),
        ];
        for (uri, expected) in table {
            assert_eq!(lines(uri).as_deref(), expected, "{uri}");
        }
    }
}
