//! Commands, which clients send as prompts that begin with a slash.

use agent_client_protocol::v1::schema::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, ContentBlock,
    UnstructuredCommandInput,
};
use crow_runtime::HostCommand;

use super::text::title;

/// Tells which commands there are.
pub(crate) fn commands(commands: &[HostCommand]) -> AvailableCommandsUpdate {
    let commands = commands.iter().map(|command| {
        let hint = title(&command.argument);
        let input = (!hint.is_empty())
            .then(|| AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(hint)));
        AvailableCommand::new(command.name.as_ref(), title(&command.description)).input(input)
    });
    AvailableCommandsUpdate::new(commands.collect())
}

/// Reads a prompt as a command: its name and what follows it. Only a prompt that is all text can be one; whether there
/// is such a command is for the caller to see.
pub(crate) fn as_command(prompt: &[ContentBlock]) -> Option<(String, String)> {
    let mut texts = Vec::with_capacity(prompt.len());
    for block in prompt {
        let ContentBlock::Text(text) = block else { return None };
        texts.push(text.text.as_str());
    }
    let text = texts.join("\n");
    let rest = text.trim_start().strip_prefix('/')?;
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (name, argument) = (rest.get(..end)?, rest.get(end..)?);
    let is_name = !name.is_empty()
        && name.chars().all(|char| char.is_alphanumeric() || matches!(char, '-' | '_' | ':' | '.'));
    is_name.then(|| (name.to_owned(), argument.trim().to_owned()))
}
