//! The command `output`, which shows the complete output of a call; the chat shows only some lines of it.

use crow_core::{
    event::{AgentEvent, Envelope},
    ids::CallId,
};
use crow_runtime::HostCommand;
use crow_text::one_line;

pub(super) const OUTPUT: HostCommand = HostCommand::new(
    "output",
    "[N|CALL]",
    "show a command's full output, by default the last; 2 is the one before, CALL the prefix of an id",
);

/// Name of the shell tool, whose calls are the commands.
const COMMAND_TOOL: &str = "bash";
/// Maximum number of commands in the list.
const LISTED: usize = 20;
/// Maximum length of a title in the list, in bytes.
const TITLE: usize = 70;

/// Returns the output of the call with that number or id prefix. An empty `call` means the last command; one that
/// matches nothing gives the list of commands. Number 1 is the last command. Ids can repeat: the latest call wins.
pub(super) fn output_of(events: &[Envelope], call: &str) -> String {
    let ended_calls = || {
        events.iter().enumerate().rev().filter_map(|(index, line)| match &line.event {
            AgentEvent::CallEnd { call_id, tool, result, .. } => {
                Some((index, call_id, tool.as_str(), &result.output))
            }
            _ => None,
        })
    };
    let commands = || ended_calls().filter(|(_, _, tool, _)| *tool == COMMAND_TOOL);
    let number = if call.is_empty() { Ok(1) } else { call.parse::<usize>() };
    let by_number = number.ok().and_then(|number| commands().nth(number.checked_sub(1)?));
    let by_id =
        || ended_calls().find(|(_, id, _, _)| !call.is_empty() && id.as_str().starts_with(call));
    if let Some((_, _, _, output)) = by_number.or_else(by_id) {
        return output.clone();
    }
    let mut lines: Vec<_> = commands()
        .take(LISTED)
        .zip(1_usize..)
        .map(|((index, id, _, _), number)| {
            let before = events.get(..index).unwrap_or_default();
            format!("\n{number:>3}  {}", title(before, id))
        })
        .collect();
    // An empty session is a normal answer, not an error.
    if lines.is_empty() {
        return "no command was run in this session".to_owned();
    }
    let earlier = match commands().count().saturating_sub(lines.len()) {
        0 => String::new(),
        earlier => format!("\n     {earlier} earlier"),
    };
    lines.reverse();
    let mut text =
        format!("no command has the number or id {call}; the commands of this session:{earlier}");
    for line in lines {
        text.push_str(&line);
    }
    text
}

/// Returns the title of the latest call with that id that started in `before`; ids can repeat.
fn title(before: &[Envelope], id: &CallId) -> String {
    let title = before.iter().rev().find_map(|line| match &line.event {
        AgentEvent::CallStart { call_id, title, .. } if call_id == id => Some(title.as_str()),
        _ => None,
    });
    crow_text::shorten(&one_line(title.unwrap_or(id.as_str())), TITLE)
}
