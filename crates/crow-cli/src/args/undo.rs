//! The arguments of `undo`, `redo`, `diff` and `restore`.

use std::ffi::OsString;

use clap::{
    Args,
    builder::{OsStringValueParser, TypedValueParser as _},
};

use super::{candidates, cli::OutputForm};
use crate::undo::{HowWords, PathAt, UndoWords};

/// Arguments of `undo`.
#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    #[command(flatten)]
    pub words: UndoWords,
    #[command(flatten)]
    pub of: OfSession,
}

/// Arguments of `redo`.
#[derive(Debug, Args)]
pub(crate) struct RedoArgs {
    #[command(flatten)]
    pub how: HowWords,
    #[command(flatten)]
    pub of: OfSession,
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// A call's id, the number of a turn, or A..B: from before A to after B; else a path [default: the whole session]
    pub what: Option<OsString>,
    /// Show only these files, and what is below these folders
    #[arg(last = true, value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Show files that git ignores as well; else they are only counted
    #[arg(long)]
    pub ignored: bool,
    #[command(flatten)]
    pub of: OfSession,
}

/// Arguments of `restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// PATH@CALL or PATH@TURN: its state after it, with a trailing ^ before it; PATH@start: before the session
    #[arg(value_name = "PATH@WHEN", value_parser = OsStringValueParser::new().try_map(|text| PathAt::parse(&text)))]
    pub what: PathAt,
    #[command(flatten)]
    pub how: HowWords,
    #[command(flatten)]
    pub of: OfSession,
}

/// Which session is meant, and how stdout says what came of it.
#[derive(Debug, Args)]
pub(crate) struct OfSession {
    /// The session: its id or an id prefix [default: the last one of the current directory, or of its nearest parent]
    #[arg(long, short, value_name = "ID", add = candidates::session_ids())]
    pub session: Option<String>,
    /// Output format: text, or one JSON object
    #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
    pub output: OutputForm,
}
