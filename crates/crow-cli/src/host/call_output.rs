//! The command of a session that shows all that a call printed, of which the chat shows some lines.

use crow_core::event::{AgentEvent, Envelope};
use crow_runtime::{HostCommand, HostError};

use crate::render::SHELL;

pub(super) const OUTPUT: HostCommand = HostCommand::new(
    "output",
    "[CALL]",
    "show all that a command printed: the last one, or the call whose id begins so",
);

/// Returns what a call printed: the last command's if no call is named. Ids may come again: the last one counts.
pub(super) fn output_of(events: &[Envelope], call: &str) -> Result<String, HostError> {
    let found = events.iter().rev().find_map(|line| {
        let AgentEvent::CallEnd { call_id, tool, result, .. } = &line.event else { return None };
        let is_meant = match call {
            "" => tool == SHELL,
            id => call_id.as_str().starts_with(id),
        };
        is_meant.then(|| result.output.clone())
    });
    match (found, call) {
        (Some(output), _) => Ok(output),
        // That there is nothing is an answer, and no failure.
        (None, "") => Ok("no command was run in this session".to_owned()),
        (None, id) => Err(HostError::Refused {
            message: format!("no call whose id begins with {id} has ended"),
            hint: "/changes lists the calls that changed files, with their ids".to_owned(),
        }),
    }
}
