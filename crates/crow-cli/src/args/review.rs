//! Arguments of `crow-agent review`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{AgentOptions, OutputForm};

/// What is reviewed, and how the findings are shown.
#[derive(Debug, Args)]
pub(crate) struct ReviewArgs {
    /// Files or folders; all changes that are not committed, if nothing else is named
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath, conflicts_with_all = ["base", "staged"])]
    pub files: Vec<PathBuf>,
    /// The changes since the branch left this one, or since this commit
    #[arg(long, value_name = "REF", conflicts_with = "staged")]
    pub base: Option<String>,
    /// The changes that are staged for the next commit
    #[arg(long)]
    pub staged: bool,
    /// What to look for above all
    #[arg(long, value_name = "TEXT")]
    pub focus: Option<String>,
    #[command(flatten)]
    pub agent: AgentOptions,
    /// Output format: the findings, or one JSON event per line and a final result
    #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
    pub output: OutputForm,
}
