//! The regular expression of a search.

use grep_matcher::LineTerminator;
use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};

/// Longest line in bytes, or file in multi-line searches, that is held in memory.
const HEAP_LIMIT: usize = 64 * 1024 * 1024;

/// The options of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GrepOptions {
    pub(super) ignore_case: bool,
    pub(super) multiline: bool,
    pub(super) before: usize,
    pub(super) after: usize,
}

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct GrepQuery {
    pub(super) matcher: RegexMatcher,
    /// Note for the model on how the pattern was changed.
    pub(super) note: Option<String>,
    options: GrepOptions,
}

impl GrepQuery {
    /// Compiles a pattern. One that is no regular expression is searched for as plain text.
    pub(super) fn compile(pattern: &str, options: GrepOptions) -> Result<Self, String> {
        if pattern.is_empty() {
            return Err("the pattern is empty".to_owned());
        }
        let error = match matcher(pattern, options, false) {
            Ok(matcher) => return Ok(Self { matcher, note: None, options }),
            Err(error) => error,
        };
        // A line break is not allowed in a search by lines: search across lines instead.
        if let (ErrorKind::NotAllowed(_), false) = (error.kind(), options.multiline) {
            let options = GrepOptions { multiline: true, ..options };
            if let Ok(matcher) = matcher(pattern, options, false) {
                let note = "the pattern has a line break: searched with multiline".to_owned();
                return Ok(Self { matcher, note: Some(note), options });
            }
        }
        // Everything else is searched for as plain text, with the reason in the note.
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        let literal = matcher(pattern, options, true).map_err(|_| reason.to_owned())?;
        let note = format!("not a regular expression ({reason}): searched as plain text");
        Ok(Self { matcher: literal, note: Some(note), options })
    }

    /// Makes a searcher for one thread.
    pub(super) fn searcher(&self) -> Searcher {
        SearcherBuilder::new()
            .line_number(true)
            .line_terminator(terminator(self.options))
            .multi_line(self.options.multiline)
            .before_context(self.options.before)
            .after_context(self.options.after)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(HEAP_LIMIT))
            .build()
    }
}

fn terminator(options: GrepOptions) -> LineTerminator {
    if options.multiline { LineTerminator::byte(b'\n') } else { LineTerminator::crlf() }
}

fn matcher(
    pattern: &str,
    options: GrepOptions,
    is_literal: bool,
) -> Result<RegexMatcher, grep_regex::Error> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(options.ignore_case)
        .multi_line(true)
        .dot_matches_new_line(options.multiline)
        .fixed_strings(is_literal);
    // A line also ends before a carriage return.
    builder.crlf(true);
    if options.multiline {
        builder.line_terminator(None);
    }
    builder.build(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: GrepOptions =
        GrepOptions { ignore_case: false, multiline: false, before: 0, after: 0 };

    #[test]
    fn a_pattern_that_is_no_expression_is_text() {
        let query = GrepQuery::compile("foo(", PLAIN).unwrap();
        assert_eq!(
            query.note.as_deref(),
            Some("not a regular expression (unclosed group): searched as plain text")
        );
        assert!(GrepQuery::compile("", PLAIN).is_err());
        assert_eq!(GrepQuery::compile("fo+", PLAIN).unwrap().note, None);
    }

    #[test]
    fn a_pattern_with_a_line_break_spans_lines() {
        let query = GrepQuery::compile(r"a\nb", PLAIN).unwrap();
        assert!(query.options.multiline && query.note.is_some());
    }
}
