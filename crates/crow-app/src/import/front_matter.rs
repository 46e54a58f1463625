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

    /// Returns the keys at the beginning of lines.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> {
        let lines = self.head.lines().filter(|line| !line.starts_with([' ', '\t', '-', '#']));
        lines.filter_map(|line| Some(line.split_once(':')?.0.trim()))
    }
}

/// Returns a Markdown file with these keys, those without a value left out.
pub(super) fn markdown(keys: &[(&str, Option<&str>)], body: &str) -> String {
    let mut text = String::from("---\n");
    for (key, value) in keys {
        if let Some(value) = value {
            let value = value.replace(['\n', '\r'], " ").replace('"', "'");
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{key}: \"{value}\"");
        }
    }
    text.push_str("---\n\n");
    text.push_str(body.trim());
    text.push('\n');
    text
}
