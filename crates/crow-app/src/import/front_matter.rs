//! The front matter of Markdown files: lines `key: value` between two lines `---`.

use std::fmt::Write as _;

/// A Markdown file with its front matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MarkdownFile<'a> {
    head: &'a str,
    pub(super) body: &'a str,
}

impl<'a> MarkdownFile<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let text = text.trim_start_matches('\u{feff}');
        let parts = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"));
        let parts = parts.and_then(|rest| {
            let mut at = 0;
            for line in rest.split_inclusive('\n') {
                if line.trim_end() == "---" {
                    return Some((&rest[..at], &rest[at + line.len()..]));
                }
                at += line.len();
            }
            None
        });
        let (head, body) = parts.unwrap_or(("", text));
        Self { head, body: body.trim() }
    }

    /// Returns the value on the line of a key, without quotes; `None` if there is none.
    pub(super) fn value(&self, key: &str) -> Option<&'a str> {
        let line = self.entry(key)?.lines().next()?;
        let value = line.split_once(':')?.1.trim().trim_matches(['"', '\'']).trim();
        (!value.is_empty()).then_some(value)
    }

    /// Returns the lines of a key: its own, and those below that belong to it.
    pub(super) fn entry(&self, key: &str) -> Option<&'a str> {
        let mut at = 0;
        let mut start = None;
        for line in self.head.split_inclusive('\n') {
            let is_key = !line.starts_with([' ', '\t', '-', '#', '\n', '\r']);
            if is_key {
                if let Some(start) = start {
                    return self.head.get(start..at);
                }
                let name = line.split_once(':').map(|(name, _)| name.trim());
                start = (name == Some(key)).then_some(at);
            }
            at += line.len();
        }
        self.head.get(start?..)
    }

    /// Returns the keys at the beginning of lines.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> {
        let lines = self.head.lines().filter(|line| !line.starts_with([' ', '\t', '-', '#']));
        lines.filter_map(|line| Some(line.split_once(':')?.0.trim()))
    }
}

/// Returns the lines of a front matter with these keys, those without a value left out.
pub(super) fn head(keys: &[(&str, Option<&str>)]) -> String {
    let mut text = String::new();
    for (key, value) in keys {
        let Some(value) = value else { continue };
        let value = value.replace(['\n', '\r'], " ");
        let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./ ".contains(char);
        // Writing to a string cannot fail.
        if !value.trim().is_empty() && value.chars().all(is_plain) {
            let _ = writeln!(text, "{key}: {}", value.trim());
        } else {
            let _ = writeln!(text, "{key}: \"{}\"", value.replace(['"', '\\'], "'"));
        }
    }
    text
}

/// Returns a Markdown file with these keys.
pub(super) fn markdown(keys: &[(&str, Option<&str>)], body: &str) -> String {
    format!("---\n{}---\n\n{}\n", head(keys), body.trim())
}
