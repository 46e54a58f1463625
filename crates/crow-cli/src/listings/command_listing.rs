//! The result of a command that lists something, for the command line and for a session.

use crow_console::ExitCode;

use crate::{
    error::CliError,
    terminal::{print_message, write_out},
};

/// Output of a command, and messages about what is wrong. Both end up in the chat as well, where the command has a twin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandListing {
    /// The output, with a line break at its end.
    pub(crate) text: String,
    /// Messages about what was listed; on the command line they go to stderr.
    pub(crate) messages: Vec<String>,
}

impl CommandListing {
    /// Prints messages and output.
    pub(crate) fn print(self) -> Result<ExitCode, CliError> {
        self.messages.iter().for_each(|message| print_message(message));
        write_out(self.text.as_bytes())
    }

    /// Returns the output and below it the messages.
    pub(crate) fn into_text(self) -> String {
        let text = self.text.trim_end().to_owned();
        let messages = self.messages.into_iter().map(|message| format!("! {message}"));
        [text].into_iter().chain(messages).collect::<Vec<_>>().join("\n")
    }
}
