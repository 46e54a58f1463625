//! Commands, which clients send as prompts that begin with a slash.

use agent_client_protocol::v1::schema::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, ContentBlock,
    UnstructuredCommandInput,
};
use crow_runtime::HostCommand;

use super::{text::title, uri::file_path};

/// Returns the update with the available commands.
pub(crate) fn commands(commands: &[HostCommand]) -> AvailableCommandsUpdate {
    let commands = commands.iter().map(|command| {
        let hint = title(&command.argument);
        let input = (!hint.is_empty())
            .then(|| AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(hint)));
        AvailableCommand::new(command.name.as_ref(), title(&command.description)).input(input)
    });
    AvailableCommandsUpdate::new(commands.collect())
}

/// Parses a prompt as a command: its name and its argument. Only a prompt of text and links can be one; links become
/// paths or URIs in the argument. The caller checks whether the command exists.
pub(crate) fn as_command(prompt: &[ContentBlock]) -> Option<(String, String)> {
    let (mut text, mut is_link) = (String::new(), false);
    for (index, block) in prompt.iter().enumerate() {
        let follows_link =
            std::mem::replace(&mut is_link, matches!(block, ContentBlock::ResourceLink(_)));
        match block {
            ContentBlock::Text(more) => {
                if index > 0 && !follows_link && !text.ends_with(char::is_whitespace) {
                    text.push('\n');
                }
                text.push_str(&more.text);
            }
            ContentBlock::ResourceLink(link) => match file_path(&link.uri) {
                Some(path) => text.push_str(&path.to_string_lossy()),
                None => text.push_str(&link.uri),
            },
            ContentBlock::Image(_) | ContentBlock::Audio(_) | ContentBlock::Resource(_) | _ => {
                return None;
            }
        }
    }
    let rest = text.trim_start().strip_prefix('/')?;
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (name, argument) = (rest.get(..end)?, rest.get(end..)?);
    let is_name = !name.is_empty()
        && name.chars().all(|char| char.is_alphanumeric() || matches!(char, '-' | '_' | ':' | '.'));
    is_name.then(|| (name.to_owned(), argument.trim().to_owned()))
}
