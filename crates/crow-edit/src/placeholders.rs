//! Finds placeholders such as `// ... existing code ...` for text that a model left out.

use super::lines::lines;

/// Comment signs and brackets around a placeholder.
const SIGNS: &[char] = &[
    '/', '*', '#', '-', '<', '!', '>', ';', '%', '{', '}', '(', ')', '[', ']', '"', '\'', ' ', '\t',
];
/// The beginnings of a comment.
const COMMENTS: &[&str] =
    &["//", "#", "--", "/*", "<!--", ";", "%", "{/*", "(*", "'''", "\"\"\"", "*"];
/// Words that make a line with dots a placeholder.
const TOPICS: &[&str] = &[
    "existing",
    "rest of",
    "remaining",
    "unchanged",
    "same as",
    "as before",
    "previous",
    "omitted",
    "other ",
    "code",
    "more ",
    "stays",
    "remains",
    "keep",
    "snip",
];
/// Beginnings of a placeholder without leading dots.
const OPENINGS: &[&str] = &[
    "rest of",
    "the rest of",
    "remaining",
    "the remaining",
    "existing code",
    "unchanged code",
    "unchanged",
    "same as before",
    "keep existing",
    "keep the existing",
];
/// Endings of such a placeholder.
const ENDINGS: &[&str] =
    &["...", "unchanged", "same", "here", "before", "as is", "remains", "omitted", "as-is"];
/// The most words of a placeholder; longer comments are prose.
const MAX_WORDS: usize = 10;

/// Returns the first placeholder line of a text.
pub(crate) fn placeholder(text: &str) -> Option<&str> {
    lines(text).into_iter().find(|line| is_placeholder(line))
}

/// Returns the first placeholder that the new text adds: it is neither in the old text nor in the file.
pub(crate) fn new_placeholder<'a>(old: &str, new: &'a str, file: &str) -> Option<&'a str> {
    let shrinks = lines(new).len() < lines(old).len();
    lines(new).into_iter().find(|line| {
        let suspect = is_placeholder(line) || (shrinks && is_bare(line));
        suspect && !old.contains(line.trim()) && !file.contains(line.trim())
    })
}

/// Returns whether a line is a comment of nothing but dots.
fn is_bare(line: &str) -> bool {
    let line = line.trim();
    let inner = dotted(line);
    COMMENTS.iter().any(|sign| line.starts_with(sign))
        && inner.len() >= 3
        && inner.bytes().all(|byte| byte == b'.')
}

fn is_placeholder(line: &str) -> bool {
    let line = line.trim();
    let inner = dotted(line);
    if inner.split_whitespace().count() > MAX_WORDS {
        return false;
    }
    let is_comment = COMMENTS.iter().any(|sign| line.starts_with(sign));
    let is_bracketed = line.starts_with(['[', '(', '<']);
    if let Some(behind) = inner.strip_prefix("...") {
        // `...name` is a spread, so outside of comments dots are followed by a space or closed by dots.
        let is_prose =
            is_comment || behind.ends_with("...") || (is_bracketed && behind.starts_with(' '));
        return is_prose && TOPICS.iter().any(|topic| behind.contains(topic));
    }
    (is_comment || is_bracketed)
        && OPENINGS.iter().any(|opening| inner.starts_with(opening))
        && ENDINGS.iter().any(|ending| inner.ends_with(ending))
}

/// Returns the text of a comment in lower case, with three dots for every ellipsis.
fn dotted(line: &str) -> String {
    line.trim_matches(SIGNS).replace('\u{2026}', "...").to_lowercase()
}
