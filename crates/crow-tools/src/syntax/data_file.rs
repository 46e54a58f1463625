//! Checks data files with the parsers that the program has anyway.

use serde::de::IgnoredAny;

use super::{
    language::DataFormat,
    problem::{ProblemList, SyntaxProblem, SyntaxVerdict},
};

/// Checks a data file.
pub(super) fn check_data(format: DataFormat, text: &str) -> SyntaxVerdict {
    match format {
        DataFormat::Json => check_json(text),
        DataFormat::Toml => check_toml(text),
    }
}

fn check_json(text: &str) -> SyntaxVerdict {
    let Err(error) = serde_json::from_str::<IgnoredAny>(text) else {
        return SyntaxVerdict::Valid;
    };
    let line_start = match error.line().checked_sub(2) {
        None => 0,
        Some(feeds) => text.match_indices('\n').nth(feeds).map_or(text.len(), |(at, _)| at + 1),
    };
    let at = (line_start + error.column().saturating_sub(1)).min(text.len());
    // A comment is intended: the file is of a dialect that has comments.
    if text.as_bytes().get(at) == Some(&b'/') {
        return SyntaxVerdict::Undecided;
    }
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(what, _)| what);
    SyntaxVerdict::Broken(ProblemList::single(SyntaxProblem::message(text, at, message)))
}

fn check_toml(text: &str) -> SyntaxVerdict {
    match toml::de::DeTable::parse(text) {
        Ok(_) => SyntaxVerdict::Valid,
        // The parser gives up at a depth that the format does not forbid.
        Err(error) if error.message().contains("recurs") => SyntaxVerdict::Undecided,
        Err(error) => {
            let at = error.span().map_or(text.len(), |span| span.start);
            let problem = SyntaxProblem::message(text, at, error.message());
            SyntaxVerdict::Broken(ProblemList::single(problem))
        }
    }
}
