//! Search of paths in two stages.
//!
//! 1) All paths, or those that matched a shorter query, are checked for the characters of the query in their order. What a
//!    directory has of them is counted once for all that is in it. The matches are ranked by their names roughly, and the
//!    best ones are kept.
//! 2) The best ones are scored exactly.

use std::{
    cmp::Reverse,
    sync::atomic::{AtomicBool, Ordering},
};

use super::{
    path_query::{NameBuffers, NameMatch, PathQuery},
    path_table::{PathTable, index, number},
};
use crate::fuzzy_matcher::{FuzzyMatcher, FuzzyQuery};

/// Number of matches that are scored exactly.
const SCORED: usize = 4096;
/// Number of paths after which a search looks whether it is cancelled.
const UNINTERRUPTED: usize = 4096;
/// What a path gains whose directory ends like the directory that the query names.
const DIRECTORY_BONUS: u32 = 16;

/// A path that matches a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileMatch {
    /// Path relative to the root of the index; that of a directory ends with a slash.
    pub(crate) path: String,
    /// Numbers of the characters of the path that match the query, in ascending order.
    pub(crate) positions: Vec<u32>,
}

impl FileMatch {
    /// Returns true if the path is that of a directory.
    pub(crate) fn is_directory(&self) -> bool {
        self.path.ends_with('/')
    }
}

/// The entries that matched the last query.
#[derive(Debug)]
pub(super) struct MatchedEntries {
    query: FuzzyQuery,
    entries: Vec<u32>,
}

#[cfg(test)]
impl MatchedEntries {
    /// Returns the number of bytes in use.
    pub(super) fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<u32>()
    }
}

/// Searches a table. Returns at most `limit` matches, the best first; `None` if the search was cancelled.
pub(super) fn search(
    table: &PathTable,
    last: &mut Option<MatchedEntries>,
    text: &str,
    limit: usize,
    cancel: &AtomicBool,
) -> Option<Vec<FileMatch>> {
    let Some(query) = PathQuery::new(text) else { return Some(Vec::new()) };
    let search = PathSearch { directories: directories(table, &query), table, query, cancel };
    let narrowed = last.as_ref().filter(|last| search.query.fuzzy.narrows(&last.query));
    let (best, entries) = search.candidates(narrowed.map(|last| last.entries.as_slice()))?;
    let ranked = search.ranked(&best, limit)?;
    let query = search.query.fuzzy;
    let mut scorer = FuzzyMatcher::of_paths(query.clone());
    *last = entries.map(|entries| MatchedEntries { query, entries });
    let matches = ranked.into_iter().filter_map(|entry| {
        let path = table.path(entry);
        let positions = scorer.find(&path)?.positions;
        Some(FileMatch { path, positions })
    });
    Some(matches.collect())
}

/// A directory as the current query sees it.
#[derive(Debug, Clone, Copy)]
struct SearchedDirectory {
    /// Number of characters of the query that its path has in their order.
    matched: usize,
    /// Number of directories above it.
    depth: u32,
    /// Length of its path, in bytes.
    length: usize,
    /// True if its path ends with the directory in the query.
    is_named: bool,
}

/// Returns the directories, of which the first is the root.
fn directories(table: &PathTable, query: &PathQuery) -> Vec<SearchedDirectory> {
    let root =
        SearchedDirectory { matched: 0, depth: 0, length: 0, is_named: !query.has_directory() };
    let mut directories = Vec::with_capacity(table.directories().len() + 1);
    directories.push(root);
    // The path of the current directory: that of its parent is at the beginning of the one before.
    let mut path = String::new();
    for entry in table.directories() {
        let parent = directories[index(table.parent(*entry))];
        let name = table.name(*entry);
        path.truncate(parent.length);
        path.push_str(name);
        directories.push(SearchedDirectory {
            matched: query.advance(parent.matched, name, table.characters(*entry)),
            depth: parent.depth + 1,
            length: path.len(),
            is_named: query.is_end_of(&path),
        });
    }
    directories
}

/// The rough rank of a match. A better one is less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CandidateRank {
    /// True if the path is not in the directory that the query names.
    is_outside: bool,
    name: NameMatch,
    /// The depth of the path if the query names only a directory, and its length otherwise.
    size: u32,
    entry: u32,
}

impl CandidateRank {
    fn bonus(&self) -> u32 {
        self.name.bonus() + if self.is_outside { 0 } else { DIRECTORY_BONUS }
    }
}

/// The best candidates of those that were pushed.
#[derive(Debug)]
struct BestCandidates {
    ranks: Vec<CandidateRank>,
    most: usize,
    /// The worst of the best ones when they were last sorted out.
    worst: Option<CandidateRank>,
}

impl BestCandidates {
    /// Returns the worst match of a name with which a candidate could be one of the best.
    fn worst_name(&self, is_outside: bool) -> Option<NameMatch> {
        match self.worst {
            Some(worst) if worst.is_outside == is_outside => Some(worst.name),
            Some(worst) if is_outside && !worst.is_outside => None,
            Some(_) | None => Some(NameMatch::Elsewhere),
        }
    }

    fn push(&mut self, rank: CandidateRank) {
        if self.worst.is_some_and(|worst| worst < rank) {
            return;
        }
        self.ranks.push(rank);
        if self.ranks.len() >= 2 * self.most {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        if self.ranks.len() > self.most {
            self.ranks.select_nth_unstable(self.most - 1);
            self.ranks.truncate(self.most);
            self.worst = self.ranks.last().copied();
        }
    }
}

/// A search that goes on.
struct PathSearch<'a> {
    table: &'a PathTable,
    query: PathQuery,
    directories: Vec<SearchedDirectory>,
    cancel: &'a AtomicBool,
}

impl PathSearch<'_> {
    /// Returns the best of the entries that match, and all of them unless every entry does. Goes through all entries if
    /// none are given.
    fn candidates(
        &self,
        entries: Option<&[u32]>,
    ) -> Option<(Vec<CandidateRank>, Option<Vec<u32>>)> {
        let columns = self.table.columns();
        let directories = self.directories.as_slice();
        let mut best = BestCandidates { ranks: Vec::new(), most: SCORED, worst: None };
        let mut matched = (self.query.len() > 0).then(Vec::new);
        let mut buffers = NameBuffers::default();
        for at in 0..entries.map_or(self.table.len(), <[u32]>::len) {
            if at % UNINTERRUPTED == 0 && self.is_cancelled() {
                return None;
            }
            let row = entries.map_or(at, |entries| index(entries[at]));
            let directory = &directories[index(columns.parents[row])];
            let characters = columns.characters[row];
            if !characters.contains(self.query.rest(directory.matched)) {
                continue;
            }
            let name = columns.name(row);
            if directory.matched < self.query.len()
                && self.query.advance(directory.matched, name, characters) < self.query.len()
            {
                continue;
            }
            let entry = number(row);
            if let Some(matched) = &mut matched {
                matched.push(entry);
            }
            let is_outside = !directory.is_named;
            let Some(worst) = best.worst_name(is_outside) else { continue };
            let name_match = self.query.name_match(name, characters, worst, &mut buffers);
            if name_match > worst {
                continue;
            }
            let size = if self.query.is_listing() {
                directory.depth
            } else {
                u32::try_from(directory.length + name.len()).unwrap_or(u32::MAX)
            };
            best.push(CandidateRank { is_outside, name: name_match, size, entry });
        }
        best.shrink();
        if let Some(matched) = &mut matched {
            matched.shrink_to_fit();
        }
        Some((best.ranks, matched))
    }

    /// Returns the best entries, the best first.
    fn ranked(&self, candidates: &[CandidateRank], limit: usize) -> Option<Vec<u32>> {
        let mut scorer = FuzzyMatcher::of_paths(self.query.fuzzy.clone());
        let mut ranked = Vec::with_capacity(candidates.len());
        for (count, candidate) in candidates.iter().enumerate() {
            if count % UNINTERRUPTED == 0 && self.is_cancelled() {
                return None;
            }
            let path = self.table.path(candidate.entry);
            let Some(score) = scorer.score(&path) else { continue };
            let score = u32::from(score) + candidate.bonus();
            ranked.push((Reverse(score), candidate.size, candidate.entry));
        }
        ranked.sort_unstable();
        Some(ranked.into_iter().take(limit).map(|(_, _, entry)| entry).collect())
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}
