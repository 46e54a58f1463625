//! The prompt of an inline screen: keys are taken here between runs, and prompts are kept for later sessions.

use std::{fs, io::Write as _, os::unix::fs::OpenOptionsExt as _, path::Path};

use crow_runtime::HostCommand;
use crow_terminal::{InputAction, ListedCommand};
use futures_util::StreamExt as _;
use jiff::Timestamp;
use tokio::time::{MissedTickBehavior, interval};

use super::{
    chat_input::ChatInput,
    commands::CHAT_COMMANDS,
    conversation::{
        ChatEnd, ChatLoop, ChatPhase, InterruptAction, LEAVES, PromptOutcome, failure, unwritable,
    },
};
use crate::{
    error::CliError,
    run::{PumpEnd, SignalAction, TICK, screen_size},
};

/// Maximum number of earlier prompts.
const HISTORY_SIZE: usize = 1000;
/// Mark before the prompt, and before an answer to a question.
const PROMPT: &str = "> ";
const ANSWER: &str = "? ";

/// Reads a prompt with the editor of the inline screen. Events that arrive meanwhile are shown as they come.
pub(super) async fn inline_prompt(chat: &mut ChatLoop) -> Result<PromptOutcome, CliError> {
    chat.modes.prompt();
    chat.show_input();
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        if let Some(action) = chat.ahead.pop_front() {
            if let Some(outcome) = on_prompt_action(chat, action).await {
                return Ok(outcome);
            }
            continue;
        }
        let has_room = chat.screen.has_room();
        tokio::select! {
            biased;
            wish = chat.signals.next() => match wish {
                SignalAction::Interrupt => chat.ahead.push_back(InputAction::Interrupt),
                SignalAction::End => return Ok(PromptOutcome::Left(ChatEnd::Interrupted)),
                SignalAction::Continue => {
                    chat.modes.prompt();
                    chat.screen.push_redraw();
                }
            },
            typed = chat.keyboard.read() => match typed {
                Ok(bytes) if !bytes.is_empty() => {
                    chat.ahead.extend(chat.typing.push(&bytes));
                    chat.show_input();
                }
                Ok(_) | Err(_) => return Ok(PromptOutcome::Left(ChatEnd::Interrupted)),
            },
            Some(event) = chat.events.next(), if has_room => chat.on_events(event),
            pumped = chat.screen.pump() => match pumped {
                PumpEnd::Room => {}
                PumpEnd::Failed => return Err(unwritable()),
            },
            end = chat.handle.wait_for_end() => return Err(failure(&end)),
            _ = ticks.tick() => {
                chat.ahead.extend(chat.typing.on_pause());
                on_tick(chat);
            }
        }
    }
}

async fn on_prompt_action(chat: &mut ChatLoop, action: InputAction) -> Option<PromptOutcome> {
    match action {
        InputAction::Line(line) => {
            if line.trim().is_empty() {
                chat.show_input();
                return None;
            }
            chat.interrupts.reset();
            remember(chat, &line);
            show_entered(chat, &line);
            chat.show_input();
            Some(PromptOutcome::Line(line))
        }
        InputAction::Interrupt => {
            // The first one clears what was typed, as in a shell.
            if !chat.typing.replace(String::new()).is_empty() {
                chat.show_input();
                return None;
            }
            match chat.interrupts.press(ChatPhase::Prompt) {
                InterruptAction::Leave => Some(PromptOutcome::Left(ChatEnd::UserLeft)),
                InterruptAction::Warn | InterruptAction::Stop => {
                    chat.screen.push_say(LEAVES.to_owned());
                    None
                }
            }
        }
        InputAction::Escape => None,
        InputAction::EndOfInput => Some(PromptOutcome::Left(ChatEnd::UserLeft)),
        InputAction::Suspend => {
            chat.screen.push_leave();
            let _ = chat.screen.wait_until_shown().await;
            let end = chat.stop().await;
            chat.modes.prompt();
            chat.show_input();
            end.map(PromptOutcome::Left)
        }
        InputAction::Redraw => {
            clear_screen(chat);
            None
        }
    }
}

/// Redraws what changes with time, and the prompt if the terminal has another size.
pub(super) fn on_tick(chat: &mut ChatLoop) {
    if screen_size() != chat.shown_size {
        show_view(chat);
    }
    chat.screen.tick(Timestamp::now());
}

/// Clears the screen, and draws the live region at its top.
pub(super) fn clear_screen(chat: &mut ChatLoop) {
    chat.screen.push_prompt("\u{1b}[H\u{1b}[2J".to_owned());
    chat.screen.push_redraw();
}

/// Shows what the user entered: by itself on an inline screen, as a message on others.
pub(super) fn show_entered(chat: &mut ChatLoop, text: &str) {
    match &chat.typing {
        ChatInput::Editor(_) => chat.screen.push_entered(text.to_owned()),
        ChatInput::Lines(_) => chat.screen.push_say(format!("> {text}")),
    }
}

/// Shows the prompt of the inline screen.
pub(super) fn show_view(chat: &mut ChatLoop) {
    let ChatInput::Editor(editor) = &mut chat.typing else { return };
    let Some(size) = screen_size() else { return };
    chat.shown_size = Some(size);
    let mark = if chat.work.is_asking() { ANSWER } else { PROMPT };
    let view = editor.view(size, mark, &chat.status);
    chat.screen.push_view(view);
}

/// Keeps a prompt for later. Errors are ignored: the chat goes on without.
fn remember(chat: &mut ChatLoop, line: &str) {
    let ChatInput::Editor(editor) = &mut chat.typing else { return };
    // As in a shell.
    if line.starts_with(' ') {
        return;
    }
    editor.remember(line);
    let Ok(folder) = chat.environment.data_dir() else { return };
    let mut options = fs::OpenOptions::new();
    let file = options.create(true).append(true).mode(0o600).open(folder.join(HISTORY_FILE));
    if let (Ok(mut file), Ok(text)) = (file, serde_json::to_string(line)) {
        drop(writeln!(file, "{text}"));
    }
}

/// Name of the file with earlier prompts: one JSON text a line.
pub(super) const HISTORY_FILE: &str = "prompts.jsonl";

/// Returns the prompts of earlier sessions, beside the file of the line editor.
pub(super) fn earlier_prompts(lines_file: &Path) -> Vec<String> {
    let text = fs::read_to_string(lines_file.with_file_name(HISTORY_FILE)).unwrap_or_default();
    let prompts = text.lines().filter_map(|line| serde_json::from_str::<String>(line).ok());
    let mut prompts: Vec<String> = prompts.collect();
    prompts.drain(..prompts.len().saturating_sub(HISTORY_SIZE));
    prompts
}

/// Returns the commands of the host and of the chat, for completion.
pub(super) fn listed(commands: &[HostCommand]) -> Vec<ListedCommand> {
    let all = commands.iter().chain(&CHAT_COMMANDS).map(|command| ListedCommand {
        name: command.name.to_string(),
        argument: command.argument.to_string(),
        description: command.description.to_string(),
    });
    let mut all: Vec<ListedCommand> = all.collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all.dedup_by(|one, other| one.name == other.name);
    all
}
