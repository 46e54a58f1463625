//! What a search finds in one file.

use std::{io, path::PathBuf};

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};

/// How many characters of a line are shown.
const MAX_LINE_CHARS: usize = 500;

/// How much is wanted of each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CollectMode {
    /// This many lines, matching or around a match.
    Lines(usize),
    /// Whether there is a match.
    Whether,
    /// How many lines match.
    Number,
}

/// A line of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GrepLine {
    pub(super) number: u64,
    pub(super) text: String,
    pub(super) is_match: bool,
}

/// What was found in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileHits {
    pub(super) path: PathBuf,
    pub(super) lines: Vec<GrepLine>,
    /// How many lines match, as far as the file was searched.
    pub(super) matches: u64,
}

/// Collects the hits of one file.
#[derive(Debug)]
pub(super) struct HitCollector<'a> {
    matcher: &'a RegexMatcher,
    wanted: CollectMode,
    pub(super) lines: Vec<GrepLine>,
    pub(super) matches: u64,
    pub(super) is_binary: bool,
}

impl<'a> HitCollector<'a> {
    pub(super) fn new(matcher: &'a RegexMatcher, wanted: CollectMode) -> Self {
        Self { matcher, wanted, lines: Vec::new(), matches: 0, is_binary: false }
    }

    /// Adds a line and says whether more are wanted.
    fn push(&mut self, number: u64, bytes: &[u8], is_match: bool) -> bool {
        match self.wanted {
            CollectMode::Number => true,
            CollectMode::Whether => false,
            CollectMode::Lines(count) => {
                self.lines.push(GrepLine { number, text: self.clip(bytes), is_match });
                self.lines.len() < count
            }
        }
    }

    /// The text of a line, or of a long one the part around the match.
    fn clip(&self, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\n', '\r']);
        if text.chars().nth(MAX_LINE_CHARS).is_none() {
            return text.to_owned();
        }
        let found = self.matcher.find(text.as_bytes()).ok().flatten();
        let middle = found.map_or(0, |found| {
            found.start().midpoint(found.end().min(found.start() + MAX_LINE_CHARS))
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

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let mut goes_on = true;
        for (number, line) in (found.line_number().unwrap_or_default()..).zip(found.lines()) {
            self.matches += 1;
            goes_on = goes_on && self.push(number, line, true);
        }
        Ok(goes_on)
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
        HitCollector::new(&matcher, CollectMode::Whether).clip(line.as_bytes())
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
