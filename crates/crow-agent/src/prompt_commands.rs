//! The commands in a prompt: they run before the model reads it, and their output stands in their place.

use std::sync::Arc;

use crow_core::{
    capability::ProcessEnd,
    event::{AgentEvent, NoticeAudience, NoticeLevel},
    message::{Block, PromptCommand, wrap_in_tag},
    tool::Tool,
};
use crow_runtime::{AgentError, AgentInternals, ReadingLine, ReadingLineEnd, run_reading_line};
use crow_text::one_line;
use tokio_util::sync::CancellationToken;

/// Maximum length of what a failed command printed in a reason, in bytes.
const LONGEST_FAULT: usize = 500;
/// The tag around an output.
const TAG: &str = "command_output";

/// Text that replaces a command in the prompt.
struct CommandOutput {
    text: String,
    /// Why it did not succeed.
    fault: Option<String>,
}

/// Runs the commands of a prompt, and puts what they print into its text. They can change nothing; the user is told which did
/// not run. Without a shell none runs. Returns the reason if one failed that is required.
pub(crate) async fn run_prompt_commands(
    agent: &mut AgentInternals,
    shell: Option<&Arc<dyn Tool>>,
    content: &mut [Block],
    commands: &[PromptCommand],
    cancel: &CancellationToken,
) -> Result<Option<String>, AgentError> {
    let mut outputs = Vec::new();
    for command in commands {
        let output = output_of(agent, shell, command, cancel).await?;
        if command.is_required
            && let Some(fault) = output.fault
        {
            return Ok(Some(format!("`{}`: {fault}", one_line(&command.line))));
        }
        outputs.push((command.place.as_str(), output.text));
    }
    insert_outputs(content, &outputs);
    Ok(None)
}

/// Replaces each place, in order. Text that was inserted is not searched: an output may contain the place of another.
fn insert_outputs(content: &mut [Block], outputs: &[(&str, String)]) {
    let mut pending = outputs.iter().peekable();
    for block in content {
        let Block::Text { text } = block else { continue };
        let (mut filled, mut rest) = (String::new(), text.as_str());
        while let Some((place, output)) = pending.peek() {
            let Some((before, after)) = rest.split_once(place) else { break };
            filled.push_str(before);
            filled.push_str(output);
            rest = after;
            pending.next();
        }
        filled.push_str(rest);
        *text = filled;
    }
}

/// Runs a command and returns the text that stands in its place.
async fn output_of(
    agent: &mut AgentInternals,
    shell: Option<&Arc<dyn Tool>>,
    command: &PromptCommand,
    cancel: &CancellationToken,
) -> Result<CommandOutput, AgentError> {
    let PromptCommand { line, argument, words, .. } = command;
    let why = match shell {
        None => "the agent has no shell".to_owned(),
        Some(shell) => {
            let line = ReadingLine { line, argument, words };
            match run_reading_line(agent, shell, line, cancel).await? {
                ReadingLineEnd::Ran { output, end } => {
                    let fault = match end {
                        ProcessEnd::Exited(0) => None,
                        ProcessEnd::Exited(status) => Some(format!("exit status {status}")),
                        ProcessEnd::Signaled(signal) => Some(format!("ended by signal {signal}")),
                        ProcessEnd::TimedOut => Some("it took too long and was ended".to_owned()),
                        ProcessEnd::Cancelled => Some("cancelled".to_owned()),
                    };
                    let note = fault.as_ref().map(|fault| format!("\n[{fault}]"));
                    let name = one_line(&command.line).replace('"', "'");
                    let shown = crow_text::shorten(output.trim(), LONGEST_FAULT);
                    let text = wrap_in_tag(TAG, &name, &(output + &note.unwrap_or_default()));
                    let fault = fault.map(|fault| format!("{fault}: {}", one_line(&shown)));
                    return Ok(CommandOutput { text, fault });
                }
                ReadingLineEnd::NotRun(why) => why,
                ReadingLineEnd::Cancelled => "the run was cancelled".to_owned(),
            }
        }
    };
    let line = one_line(&command.line);
    let text = format!("the command `{line}` of the prompt was not run: {why}");
    let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
    agent.emit(AgentEvent::Notice { level, audience, text }).await?;
    let text = format!("[`{line}` was not run: {why}]");
    Ok(CommandOutput { text, fault: Some(format!("not run: {why}")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_that_contains_the_place_of_another_stays_as_it_is() {
        let mut content = [Block::text("a: !`one`\nb: !`two`")];
        let outputs = [("!`one`", "says !`two`".to_owned()), ("!`two`", "2".to_owned())];
        insert_outputs(&mut content, &outputs);
        assert_eq!(content, [Block::text("a: says !`two`\nb: 2")]);
    }
}
