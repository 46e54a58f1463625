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

/// The tag around an output.
const TAG: &str = "command_output";

/// Runs the commands of a prompt, and puts what they print into its text. They can change nothing; the user is told which did
/// not run. Without a shell none runs.
pub(crate) async fn run_prompt_commands(
    agent: &mut AgentInternals,
    shell: Option<&Arc<dyn Tool>>,
    content: &mut [Block],
    commands: &[PromptCommand],
    cancel: &CancellationToken,
) -> Result<(), AgentError> {
    for command in commands {
        let output = output_of(agent, shell, command, cancel).await?;
        let texts = content.iter_mut().filter_map(|block| match block {
            Block::Text { text } => Some(text),
            Block::Image(_) => None,
        });
        let place = command.place.as_str();
        if let Some(text) = texts.into_iter().find(|text| text.contains(place)) {
            *text = text.replacen(place, &output, 1);
        }
    }
    Ok(())
}

/// Runs a command and returns the text that stands in its place.
async fn output_of(
    agent: &mut AgentInternals,
    shell: Option<&Arc<dyn Tool>>,
    command: &PromptCommand,
    cancel: &CancellationToken,
) -> Result<String, AgentError> {
    let PromptCommand { line, argument, words, .. } = command;
    let why = match shell {
        None => "the agent has no shell".to_owned(),
        Some(shell) => {
            let line = ReadingLine { line, argument, words };
            match run_reading_line(agent, shell, line, cancel).await? {
                ReadingLineEnd::Ran { output, end } => {
                    let note = match end {
                        ProcessEnd::Exited(0) => String::new(),
                        ProcessEnd::Exited(status) => format!("\n[exit status {status}]"),
                        ProcessEnd::Signaled(signal) => format!("\n[ended by signal {signal}]"),
                        ProcessEnd::TimedOut => "\n[it took too long and was ended]".to_owned(),
                        ProcessEnd::Cancelled => "\n[cancelled]".to_owned(),
                    };
                    let name = one_line(&command.line).replace('"', "'");
                    return Ok(wrap_in_tag(TAG, &name, &(output + &note)));
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
    Ok(format!("[`{line}` was not run: {why}]"))
}
