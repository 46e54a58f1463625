//! A Rust file for the checks, with comments and literals blanked out.

use std::ops::Range;

/// A Rust file and its code without comments and literals.
pub(crate) struct Source {
    /// Path relative to the workspace.
    pub path: String,
    /// Full text.
    pub text: String,
    /// Text with each byte of comments and literals replaced by a blank, except line feeds: offsets are unchanged.
    pub code: String,
}

impl Source {
    pub(crate) fn new(path: String, text: String) -> Self {
        let code = blank_out(&text);
        Self { path, text, code }
    }

    /// Returns the identifiers and keywords with their byte offsets.
    pub(crate) fn words(&self) -> impl Iterator<Item = (usize, &str)> {
        words(&self.code)
    }

    /// Returns the byte ranges of the attributes.
    pub(crate) fn attributes(&self) -> Vec<Range<usize>> {
        let marks = self.code.match_indices('#').filter_map(|(start, _)| {
            attribute_len(self.code.get(start..)?).map(|len| start..start + len)
        });
        marks.collect()
    }

    /// Returns `path:line` of a byte offset.
    pub(crate) fn location(&self, offset: usize) -> String {
        let line = self.text.get(..offset).unwrap().matches('\n').count() + 1;
        format!("{}:{line}", self.path)
    }
}

/// Returns the identifiers and keywords in code with their byte offsets.
pub(crate) fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let starts = code.char_indices().filter(|(at, c)| {
        is_word(*c) && !code.get(..*at).unwrap().chars().next_back().is_some_and(is_word)
    });
    starts.map(|(at, _)| {
        let rest = code.get(at..).unwrap();
        (at, rest.split(|c| !is_word(c)).next().unwrap())
    })
}

/// Returns the length of the attribute at the start of the code, if there is one.
pub(crate) fn attribute_len(code: &str) -> Option<usize> {
    let open = code.strip_prefix('#')?.strip_prefix('!').unwrap_or(code.get(1..)?);
    if !open.starts_with('[') {
        return None;
    }
    let mut depth = 0_u32;
    for (at, c) in code.char_indices() {
        match c {
            '[' => depth += 1,
            ']' if depth == 1 => return Some(at + 1),
            ']' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn blank_out(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let inside_word = code.chars().next_back().is_some_and(is_word);
        let len = if let Some(len) = opaque_len(rest, inside_word) {
            let blanks = rest.get(..len).unwrap().bytes();
            code.extend(blanks.map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
            len
        } else {
            code.push(c);
            c.len_utf8()
        };
        rest = rest.get(len..).unwrap();
    }
    code
}

/// Returns the length of the comment or literal at the start of the text, if there is one.
fn opaque_len(text: &str, inside_word: bool) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(block_comment_len(text));
    }
    if text.starts_with('"') {
        return Some(quoted_len(text, '"'));
    }
    if text.starts_with('\'') {
        return is_character(text).then(|| quoted_len(text, '\''));
    }
    if inside_word {
        return None;
    }
    let raw = text.strip_prefix(['b', 'c']).unwrap_or(text).strip_prefix('r')?;
    let hashes = raw.len() - raw.trim_start_matches('#').len();
    let content = raw.get(hashes..)?.strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = content.find(&close).map_or(content.len(), |at| at + close.len());
    Some(text.len() - content.len() + end)
}

fn block_comment_len(text: &str) -> usize {
    let mut depth = 0_u32;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

fn quoted_len(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if !escaped && c == quote {
            return at + 1;
        }
        escaped = !escaped && c == '\\';
    }
    text.len()
}

/// Returns true for a character literal such as `'a'` and `'\n'`, false for a lifetime such as `'a`.
fn is_character(text: &str) -> bool {
    let mut chars = text.chars().skip(1);
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_of(text: &str) -> Vec<String> {
        let source = Source::new("a.rs".into(), text.into());
        assert_eq!(source.code.len(), text.len(), "{text}");
        source.words().map(|(_, word)| word.to_owned()).collect()
    }

    #[test]
    fn comments_and_literals_hold_no_words() {
        let cases: &[(&str, &[&str])] = &[
            ("a // b\nc", &["a", "c"]),
            ("a /* b /* c */ d */ e", &["a", "e"]),
            (r#"a("b \" c") d"#, &["a", "d"]),
            (r##"a(r#"b " c"#, br"d") e"##, &["a", "e"]),
            (r"fn a<'b>(c: &'b str) { 'd' '\'' '\u{e}' }", &["fn", "a", "b", "c", "b", "str"]),
            ("\"ü\" a", &["a"]),
            ("for_r\"b\"", &["for_r"]),
        ];
        for (text, expected) in cases {
            assert_eq!(words_of(text), *expected, "{text}");
        }
    }

    #[test]
    fn an_attribute_ends_with_its_own_bracket() {
        let source = Source::new("a.rs".into(), "#[a(b[0])]\n#![c]\nd # e".into());
        let found: Vec<_> =
            source.attributes().into_iter().map(|range| source.code.get(range).unwrap()).collect();
        assert_eq!(found, ["#[a(b[0])]", "#![c]"]);
        assert_eq!(source.location(11), "a.rs:2");
    }
}
