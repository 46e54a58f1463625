//! Search of many files: in the order of their paths, several at a time, no further than needed.
//!
//! The walk is divided into chunks. Threads take the files of a chunk one by one, and the outcomes are sorted by
//! index. After each chunk the search ends if there are enough hits.

use std::{
    cell::RefCell,
    io,
    num::NonZero,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crow_fs::Directory;
use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::types::Types;

use super::super::walk::{
    IgnoreMode, NameFilter, SearchDeadline, StoppableReader, WithheldFiles, files,
};
use crate::{
    file::{LoadError, OpenFile, open, open_entry},
    paths::AllowedPath,
};

/// Fewest and most files of a chunk, after which the search may end. The more lines each file may have, the smaller
/// is the chunk.
const CHUNKS: (usize, usize) = (16, 256);
/// Most lines that the files of a chunk should have.
const LINES_OF_CHUNK: usize = 64_000;
/// Number of files for which another thread is worth its cost.
const WORTH_A_THREAD: usize = 16;
const MAX_THREADS: usize = 8;

/// The files to search.
#[derive(Debug)]
pub(super) struct SearchScope {
    /// A folder, or one file.
    pub(super) root: AllowedPath,
    /// The folder, unless the root is a file. The walk through it goes by path; its files are opened beneath this
    /// descriptor.
    pub(super) folder: Option<Directory>,
    pub(super) names: NameFilter,
    pub(super) types: Option<Types>,
    pub(super) withheld: WithheldFiles,
}

impl SearchScope {
    /// Opens a file that the walk found.
    fn open(&self, path: &Path) -> Result<OpenFile, LoadError> {
        let relative = path.strip_prefix(&self.root).map_err(io::Error::other)?;
        match &self.folder {
            Some(folder) if !relative.as_os_str().is_empty() => {
                let (directory, name) = folder.open_parent_beneath(relative)?;
                open_entry(&directory, &name)
            }
            Some(_) | None => open(&self.root),
        }
    }

    /// Returns true if a file below the root is searched.
    pub(super) fn includes(&self, path: &Path) -> bool {
        let relative = path.strip_prefix(&self.root).unwrap_or(path);
        // A file that is the root itself is searched whatever its name is.
        relative.as_os_str().is_empty()
            || (self.names.passes(relative)
                && self
                    .types
                    .as_ref()
                    .is_none_or(|types| types.matched(path, false).is_whitelist()))
    }
}

/// The results of a search.
#[derive(Debug, Default)]
pub(super) struct GrepResults {
    /// Files with hits, in the order of their paths.
    pub(super) hits: Vec<FileHits>,
    pub(super) binary: usize,
    pub(super) unreadable: usize,
    /// Files that were not searched, because their names suggest keys or a rule of the user withholds them.
    pub(super) withheld: Vec<PathBuf>,
}

/// The outcome of the search of one file.
enum FileSearchOutcome {
    Hits(FileHits),
    Nothing,
    Binary,
    Unreadable,
}

/// Searches file after file until `is_enough` returns true or the search must stop.
pub(super) fn search(
    scope: &SearchScope,
    query: &GrepQuery,
    mode: CollectMode,
    stop: &SearchDeadline,
    is_enough: impl Fn(&[FileHits]) -> bool,
) -> GrepResults {
    let mut results = GrepResults::default();
    let withheld = RefCell::new(Vec::new());
    let mut paths = files(&scope.root, &scope.withheld, IgnoreMode::Skip, stop)
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .map(ignore::DirEntry::into_path)
        .filter(|path| scope.includes(path))
        .filter(|path| {
            let is_secret = scope.withheld.is_secret(path);
            if is_secret {
                withheld.borrow_mut().push(path.clone());
            }
            !is_secret
        });
    let size = chunk_size(mode);
    loop {
        // One chunk at a time, so that the walk goes no further than needed.
        let chunk: Vec<PathBuf> = paths.by_ref().take(size).collect();
        for outcome in search_chunk(scope, &chunk, query, mode, stop) {
            match outcome {
                FileSearchOutcome::Hits(hits) => results.hits.push(hits),
                FileSearchOutcome::Binary => results.binary += 1,
                FileSearchOutcome::Unreadable => results.unreadable += 1,
                FileSearchOutcome::Nothing => {}
            }
        }
        if chunk.len() < size || is_enough(&results.hits) || stop.is_due() {
            results.withheld = withheld.take();
            return results;
        }
    }
}

fn chunk_size(mode: CollectMode) -> usize {
    let (least, most) = CHUNKS;
    match mode {
        CollectMode::Lines(count) => (LINES_OF_CHUNK / count.max(1)).clamp(least, most),
        CollectMode::AnyMatch | CollectMode::Count => most,
    }
}

/// Returns true if a file has a match.
pub(super) fn has_match(
    scope: &SearchScope,
    path: &Path,
    query: &GrepQuery,
    stop: &SearchDeadline,
) -> bool {
    let outcome =
        search_file(&mut query.searcher(), scope, path, query, CollectMode::AnyMatch, stop);
    matches!(outcome, FileSearchOutcome::Hits(_))
}

/// Searches the files of a chunk in parallel. Returns their outcomes in order.
fn search_chunk(
    scope: &SearchScope,
    chunk: &[PathBuf],
    query: &GrepQuery,
    mode: CollectMode,
    stop: &SearchDeadline,
) -> Vec<FileSearchOutcome> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::with_capacity(chunk.len()));
    let work = || {
        let mut searcher = query.searcher();
        let mut own = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = chunk.get(index) else { break };
            own.push((index, search_file(&mut searcher, scope, path, query, mode, stop)));
        }
        outcomes.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = threads.min(MAX_THREADS).min(chunk.len() / WORTH_A_THREAD);
    thread::scope(|threads_of_chunk| {
        for _ in 1..threads {
            threads_of_chunk.spawn(work);
        }
        work();
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

fn search_file(
    searcher: &mut Searcher,
    scope: &SearchScope,
    path: &Path,
    query: &GrepQuery,
    mode: CollectMode,
    stop: &SearchDeadline,
) -> FileSearchOutcome {
    let Ok(OpenFile { file: reader, .. }) = scope.open(path) else {
        return FileSearchOutcome::Unreadable;
    };
    let mut collector = HitCollector::new(&query.matcher, mode);
    let reader = StoppableReader { reader, stop };
    if searcher.search_reader(&query.matcher, reader, &mut collector).is_err() {
        return if stop.is_due() {
            FileSearchOutcome::Nothing
        } else {
            FileSearchOutcome::Unreadable
        };
    }
    if collector.is_binary {
        return FileSearchOutcome::Binary;
    }
    if collector.matches == 0 {
        return FileSearchOutcome::Nothing;
    }
    FileSearchOutcome::Hits(FileHits {
        path: path.to_owned(),
        lines: collector.lines,
        matches: collector.matches,
    })
}

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
struct HitCollector<'a> {
    matcher: &'a RegexMatcher,
    mode: CollectMode,
    pub(super) lines: Vec<GrepLine>,
    pub(super) matches: u64,
    is_binary: bool,
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
    fn searcher(&self) -> Searcher {
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
