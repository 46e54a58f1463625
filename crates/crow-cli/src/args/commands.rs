//! Arguments of `crow-agent commands`.

use clap::{Args, Subcommand};

use super::OutputForm;

/// Arguments of `commands`; without a subcommand it lists.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct CommandsArgs {
    #[command(subcommand)]
    pub command: Option<CommandsCommand>,
    /// Output format: text, or one JSON object per line
    #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
    pub output: OutputForm,
}

impl CommandsArgs {
    /// Returns the output format, of whichever way it was given.
    pub(crate) fn output(&self) -> OutputForm {
        match self.command {
            Some(CommandsCommand::List { output }) => output,
            None => self.output,
        }
    }
}

/// The subcommands of `commands`.
#[derive(Debug, Subcommand)]
pub(crate) enum CommandsCommand {
    /// List the commands of this directory, and which of them have the name of another one
    List {
        /// Output format: text, or one JSON object per line
        #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
        output: OutputForm,
    },
}
