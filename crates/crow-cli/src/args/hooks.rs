//! Arguments of `crow-agent hooks`.

use clap::{Args, Subcommand};

use super::OutputForm;

/// The subcommands of `hooks`.
#[derive(Debug, Subcommand)]
pub(crate) enum HooksCommand {
    /// List the hooks of this directory, and why any does not run
    List {
        /// Output format: text, or one JSON object per line
        #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
        output: OutputForm,
    },
    /// Run the hooks on sample events, or on those of a session, and show what they answer
    Test(HooksTestArgs),
}

/// Which events the hooks run on.
#[derive(Debug, Args)]
pub(crate) struct HooksTestArgs {
    /// The event: `PreToolUse`, `Stop` and so on; all if absent
    pub(crate) event: Option<String>,
    /// The tool of the call
    #[arg(long, requires = "event")]
    pub(crate) tool: Option<String>,
    /// The arguments of the call, as JSON
    #[arg(long, requires = "tool")]
    pub(crate) input: Option<String>,
    /// The events of this session: its id or the beginning of it
    #[arg(long, value_name = "ID", conflicts_with_all = ["event", "tool", "input"])]
    pub(crate) session: Option<String>,
    /// Output format: text, or one JSON object per line
    #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
    pub(crate) output: OutputForm,
}
