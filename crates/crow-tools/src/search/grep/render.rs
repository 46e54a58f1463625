//! The text form of a page of hits.

use std::fmt::Write as _;

use crow_core::tool::ToolContext;

use super::collect::FileHits;
use crate::paths::display_path;

/// Most bytes that are shown, whatever the number of lines.
const MAX_BYTES: usize = 50 * 1024;

/// The part of the hits that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HitPage {
    pub(super) offset: usize,
    pub(super) limit: usize,
}

impl HitPage {
    /// Returns the number of hits that fill the page and show if there are more.
    pub(super) fn needed(self) -> usize {
        self.offset.saturating_add(self.limit).saturating_add(1)
    }
}

/// Writes lines under the name of their file: `12:text` if it matches, `12-text` if it is context.
pub(super) fn lines(hits: &[FileHits], page: HitPage, ctx: &ToolContext) -> String {
    let mut text = String::new();
    let mut last: Option<(usize, u64)> = None;
    let mut position = 0;
    for (index, file) in hits.iter().enumerate() {
        for line in &file.lines {
            position += 1;
            if position <= page.offset {
                continue;
            }
            if position > page.offset.saturating_add(page.limit) || text.len() > MAX_BYTES {
                let _ =
                    writeln!(text, "[there are more lines: go on with offset {}]", position - 1);
                return text;
            }
            match last {
                Some((file, number)) if file == index && number + 1 == line.number => {}
                Some((file, _)) if file == index => {
                    // Without context lines the matches need no separators.
                    if hits.iter().any(|file| file.lines.iter().any(|line| !line.is_match)) {
                        text.push_str("--\n");
                    }
                }
                Some(_) => {
                    let _ = writeln!(text, "\n{}", display_path(&file.path, ctx));
                }
                None => {
                    let _ = writeln!(text, "{}", display_path(&file.path, ctx));
                }
            }
            let mark = if line.is_match { ':' } else { '-' };
            let _ = writeln!(text, "{}{mark}{}", line.number, line.text);
            last = Some((index, line.number));
        }
    }
    text
}

/// Writes the names of files.
pub(super) fn names(hits: &[FileHits], page: HitPage, ctx: &ToolContext) -> String {
    let lines = hits.iter().map(|file| display_path(&file.path, ctx));
    list(lines, hits.len(), page)
}

/// Writes the number of matching lines in each file and in all.
pub(super) fn counts(hits: &[FileHits], page: HitPage, ctx: &ToolContext) -> String {
    let lines =
        hits.iter().map(|file| format!("{}:{}", display_path(&file.path, ctx), file.matches));
    let mut text = list(lines, hits.len(), page);
    let total: u64 = hits.iter().map(|file| file.matches).sum();
    let _ = writeln!(text, "[{total} matching lines in {} files]", hits.len());
    text
}

fn list(lines: impl Iterator<Item = String>, total: usize, page: HitPage) -> String {
    let mut text = String::new();
    for line in lines.skip(page.offset).take(page.limit) {
        text.push_str(&line);
        text.push('\n');
    }
    let next = page.offset.saturating_add(page.limit);
    if total > next {
        let _ = writeln!(text, "[there are more files: go on with offset {next}]");
    }
    text
}
