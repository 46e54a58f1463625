//! The command of a session that shows all that a call printed, of which the chat shows some lines.

use crow_core::{
    event::{AgentEvent, Envelope},
    ids::CallId,
};
use crow_runtime::HostCommand;

use crate::render::{SHELL, one_line};

pub(super) const OUTPUT: HostCommand = HostCommand::new(
    "output",
    "[N|CALL]",
    "show all that a command printed: the last one, the last but one (2), or the call whose id begins so",
);

/// How many commands are listed.
const LISTED: usize = 20;
/// How much of the title of a command is listed, in bytes.
const TITLE: usize = 70;

/// Returns what a call printed: the last command's if no call is named, or the commands if none is meant by it. The number of
/// a command counts from the last one, which is 1. Ids may come again: the last one counts.
pub(super) fn output_of(events: &[Envelope], call: &str) -> String {
    let ended = || {
        events.iter().enumerate().rev().filter_map(|(place, line)| match &line.event {
            AgentEvent::CallEnd { call_id, tool, result, .. } => {
                Some((place, call_id, tool.as_str(), &result.output))
            }
            _ => None,
        })
    };
    let commands = || ended().filter(|(_, _, tool, _)| *tool == SHELL);
    let number = if call.is_empty() { Ok(1) } else { call.parse::<usize>() };
    let by_number = number.ok().and_then(|number| commands().nth(number.checked_sub(1)?));
    let by_id = || ended().find(|(_, id, _, _)| !call.is_empty() && id.as_str().starts_with(call));
    if let Some((_, _, _, output)) = by_number.or_else(by_id) {
        return output.clone();
    }
    let mut lines: Vec<_> = commands()
        .take(LISTED)
        .zip(1_usize..)
        .map(|((place, id, _, _), number)| {
            let before = events.get(..place).unwrap_or_default();
            format!("\n{number:>3}  {}", title(before, id))
        })
        .collect();
    // That there is nothing is an answer, and no failure.
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

/// The title of the call that ended after these events: ids may come again.
fn title(before: &[Envelope], id: &CallId) -> String {
    let title = before.iter().rev().find_map(|line| match &line.event {
        AgentEvent::CallStart { call_id, title, .. } if call_id == id => Some(title.as_str()),
        _ => None,
    });
    crow_text::shorten(&one_line(title.unwrap_or(id.as_str())), TITLE)
}
