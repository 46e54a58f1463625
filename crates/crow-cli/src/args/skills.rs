//! Arguments of `crow-agent skills`.

use clap::Subcommand;

use super::OutputForm;

/// The subcommands of `skills`.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// List the skills of this directory, and what is wrong with any
    List {
        /// Output format: text, or one JSON object per line
        #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
        output: OutputForm,
    },
    /// Show a skill and its instructions
    Show {
        /// The skill
        name: String,
        /// Output format: text, or one JSON object
        #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
        output: OutputForm,
    },
    /// Switch a skill off
    Disable {
        /// The skill
        name: String,
    },
    /// Switch a skill on again
    Enable {
        /// The skill
        name: String,
    },
}
