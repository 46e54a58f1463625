//! The hits of a search in one file.

use std::{io, path::PathBuf};

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};

/// Most characters of a line that are shown.
const MAX_LINE_CHARS: usize = 500;

/// The hits to collect in each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CollectMode {
    /// At most this many lines, matching or around a match.
    Lines(usize),
    /// None, only the fact that there is a match.
    AnyMatch,
    /// None, only the number of matching lines.
    Count,
}

/// A line of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GrepLine {
    pub(super) number: u64,
    pub(super) text: String,
    pub(super) is_match: bool,
}

/// The hits in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileHits {
    pub(super) path: PathBuf,
    pub(super) lines: Vec<GrepLine>,
    /// Number of matching lines, as far as the file was searched.
    pub(super) matches: u64,
}

/// Collects the hits of one file.
#[derive(Debug)]
pub(super) struct HitCollector<'a> {
    matcher: &'a RegexMatcher,
    mode: CollectMode,
    pub(super) lines: Vec<GrepLine>,
    pub(super) matches: u64,
    pub(super) is_binary: bool,
}

impl<'a> HitCollector<'a> {
    pub(super) fn new(matcher: &'a RegexMatcher, mode: CollectMode) -> Self {
        Self { matcher, mode, lines: Vec::new(), matches: 0, is_binary: false }
    }

    /// Adds a line. Returns true if more are needed.
    fn push(&mut self, number: u64, bytes: &[u8], is_match: bool) -> bool {
        match self.mode {
            CollectMode::Count => true,
            CollectMode::AnyMatch => false,
            CollectMode::Lines(count) => {
                self.lines.push(GrepLine { number, text: self.clip(bytes), is_match });
                self.lines.len() < count
            }
        }
    }

    /// Returns the text of a line, or of a long one the part around the match.
    fn clip(&self, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\n', '\r']);
        if text.chars().nth(MAX_LINE_CHARS).is_none() {
            return text.to_owned();
        }
        let range = self.matcher.find(text.as_bytes()).ok().flatten();
        let middle = range.map_or(0, |range| {
            range.start().midpoint(range.end().min(range.start() + MAX_LINE_CHARS))
        });
        let before = text.get(..middle).map_or(0, |before| before.chars().count());
        let first = before.saturating_sub(MAX_LINE_CHARS / 2);
        let mut clipped = String::new();
        if first > 0 {
            clipped.push('…');
        }
        let mut rest = text.chars().skip(first);
        clipped.extend(rest.by_ref().take(MAX_LINE_CHARS));
        if rest.next().is_some() {
            clipped.push('…');
        }
        clipped
    }
}

impl Sink for HitCollector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, hit: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let mut continues = true;
        for (number, line) in (hit.line_number().unwrap_or_default()..).zip(hit.lines()) {
            self.matches += 1;
            continues = continues && self.push(number, line, true);
        }
        Ok(continues)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        Ok(self.push(context.line_number().unwrap_or_default(), context.bytes(), false))
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.is_binary = true;
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clip(pattern: &str, line: &str) -> String {
        let matcher = RegexMatcher::new(pattern).unwrap();
        HitCollector::new(&matcher, CollectMode::AnyMatch).clip(line.as_bytes())
    }

    #[test]
    fn a_long_line_is_cut_around_its_match() {
        let line = format!("{}needle{}\n", "ä".repeat(1000), "b".repeat(1000));
        let clipped = clip("needle", &line);
        assert_eq!(clipped.chars().count(), 502);
        assert!(clipped.starts_with("…ä") && clipped.ends_with("b…"));
        let at = clipped.find("needle").unwrap();
        assert!((240..=250).contains(&clipped.get(..at).unwrap().chars().count()));
    }

    #[test]
    fn ends_and_short_lines_are_not_cut() {
        assert_eq!(clip("x", "short x\r\n"), "short x");
        let line = format!("x{}", "y".repeat(600));
        assert_eq!(clip("x", &line), format!("x{}…", "y".repeat(499)));
        assert_eq!(clip("none", &line).chars().count(), 501);
    }
}
