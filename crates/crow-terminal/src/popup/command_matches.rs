//! Commands, and which of them match what is typed.

use std::cmp::Reverse;

use crate::fuzzy_matcher::{FuzzyMatcher, FuzzyQuery};

/// A command that can be completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedCommand {
    /// The name without its slash.
    pub(crate) name: String,
    /// Placeholder of its argument, in brackets if it may be left out. May be empty.
    pub(crate) argument: String,
    /// Description for people.
    pub(crate) description: String,
}

impl ListedCommand {
    /// Returns true if the command does nothing without an argument.
    pub(super) fn needs_argument(&self) -> bool {
        !self.argument.is_empty() && !self.argument.starts_with('[')
    }

    /// Returns true if this is its name. Case is ignored, as it is when a command is run.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// The part of a command that has what is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MatchedPart {
    Name,
    Description,
}

/// A command that matches what is typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandMatch {
    /// Index of the command.
    pub(super) index: usize,
    pub(super) part: MatchedPart,
    /// Numbers of the characters of the part that match.
    pub(super) positions: Vec<u32>,
}

/// Returns the commands that match: all for an empty text, and otherwise first those whose name has the typed characters
/// in their order, the best first, and then those whose description has the text.
pub(super) fn matching(commands: &[ListedCommand], typed: &str) -> Vec<CommandMatch> {
    let Some(query) = FuzzyQuery::ignoring_case(typed) else { return Vec::new() };
    if typed.is_empty() {
        let all = (0..commands.len()).map(|index| CommandMatch {
            index,
            part: MatchedPart::Name,
            positions: Vec::new(),
        });
        return all.collect();
    }
    let mut scorer = FuzzyMatcher::of_names(query);
    let mut matches: Vec<_> = commands
        .iter()
        .enumerate()
        .filter_map(|(index, command)| {
            let (part, found) = match scorer.find(&command.name) {
                Some(found) => (MatchedPart::Name, found),
                None => (MatchedPart::Description, scorer.find_substring(&command.description)?),
            };
            // The order of descriptions is that of the commands.
            let score = if part == MatchedPart::Name { found.score } else { 0 };
            let length = if part == MatchedPart::Name { command.name.len() } else { 0 };
            let rank = (part, !command.is_named(typed), Reverse(score), length);
            Some((rank, CommandMatch { index, part, positions: found.positions }))
        })
        .collect();
    matches.sort_by_key(|(rank, _)| *rank);
    matches.into_iter().map(|(_, found)| found).collect()
}
