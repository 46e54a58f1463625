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

impl ChatLoop {
    /// Reads a prompt with the editor of the inline screen. Events that arrive meanwhile are shown as they come.
    pub(super) async fn inline_prompt(&mut self) -> Result<PromptOutcome, CliError> {
        self.modes.prompt();
        self.show_input();
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if let Some(action) = self.ahead.pop_front() {
                if let Some(outcome) = self.on_prompt_action(action).await {
                    return Ok(outcome);
                }
                continue;
            }
            let has_room = self.screen.has_room();
            tokio::select! {
                biased;
                wish = self.signals.next() => match wish {
                    SignalAction::Interrupt => self.ahead.push_back(InputAction::Interrupt),
                    SignalAction::End => return Ok(PromptOutcome::Left(ChatEnd::Interrupted)),
                    SignalAction::Continue => {
                        self.modes.prompt();
                        self.screen.push_redraw();
                    }
                },
                typed = self.keyboard.read() => match typed {
                    Ok(bytes) if !bytes.is_empty() => {
                        self.ahead.extend(self.typing.push(&bytes));
                        self.show_input();
                    }
                    Ok(_) | Err(_) => return Ok(PromptOutcome::Left(ChatEnd::Interrupted)),
                },
                Some(event) = self.events.next(), if has_room => self.on_events(event),
                pumped = self.screen.pump() => match pumped {
                    PumpEnd::Room => {}
                    PumpEnd::Failed => return Err(unwritable()),
                },
                end = self.handle.wait_for_end() => return Err(failure(&end)),
                _ = ticks.tick() => {
                    self.ahead.extend(self.typing.on_pause());
                    self.on_tick();
                }
            }
        }
    }

    async fn on_prompt_action(&mut self, action: InputAction) -> Option<PromptOutcome> {
        match action {
            InputAction::Line(line) => {
                if line.trim().is_empty() {
                    self.show_input();
                    return None;
                }
                self.interrupts.reset();
                self.remember(&line);
                self.show_entered(&line);
                self.show_input();
                Some(PromptOutcome::Line(line))
            }
            InputAction::Interrupt => {
                // The first one clears what was typed, as in a shell.
                if !self.typing.replace(String::new()).is_empty() {
                    self.show_input();
                    return None;
                }
                match self.interrupts.press(ChatPhase::Prompt) {
                    InterruptAction::Leave => Some(PromptOutcome::Left(ChatEnd::UserLeft)),
                    InterruptAction::Warn | InterruptAction::Stop => {
                        self.screen.push_say(LEAVES.to_owned());
                        None
                    }
                }
            }
            InputAction::Escape => None,
            InputAction::EndOfInput => Some(PromptOutcome::Left(ChatEnd::UserLeft)),
            InputAction::Suspend => {
                self.screen.push_leave();
                let _ = self.screen.wait_until_shown().await;
                let end = self.stop().await;
                self.modes.prompt();
                self.show_input();
                end.map(PromptOutcome::Left)
            }
            InputAction::Redraw => {
                self.clear_screen();
                None
            }
        }
    }

    /// Redraws what changes with time, and the prompt if the terminal has another size.
    pub(super) fn on_tick(&mut self) {
        if screen_size() != self.shown_size {
            self.show_view();
        }
        self.screen.tick(Timestamp::now());
    }

    /// Clears the screen, and draws the live region at its top.
    pub(super) fn clear_screen(&mut self) {
        self.screen.push_prompt("\u{1b}[H\u{1b}[2J".to_owned());
        self.screen.push_redraw();
    }

    /// Shows what the user entered: by itself on an inline screen, as a message on others.
    pub(super) fn show_entered(&mut self, text: &str) {
        match &self.typing {
            ChatInput::Editor(_) => self.screen.push_entered(text.to_owned()),
            ChatInput::Lines(_) => self.screen.push_say(format!("> {text}")),
        }
    }

    /// Shows the prompt of the inline screen.
    pub(super) fn show_view(&mut self) {
        let ChatInput::Editor(editor) = &mut self.typing else { return };
        let Some(size) = screen_size() else { return };
        self.shown_size = Some(size);
        let mark = if self.work.is_asking() { ANSWER } else { PROMPT };
        let view = editor.view(size, mark, &self.status);
        self.screen.push_view(view);
    }

    /// Keeps a prompt for later. Errors are ignored: the chat goes on without.
    fn remember(&mut self, line: &str) {
        let ChatInput::Editor(editor) = &mut self.typing else { return };
        editor.remember(line);
        let Ok(folder) = self.environment.data_dir() else { return };
        let mut options = fs::OpenOptions::new();
        let file = options.create(true).append(true).mode(0o600).open(folder.join(HISTORY_FILE));
        if let (Ok(mut file), Ok(text)) = (file, serde_json::to_string(line)) {
            drop(writeln!(file, "{text}"));
        }
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
        description: command.description.to_string(),
    });
    let mut all: Vec<ListedCommand> = all.collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all.dedup_by(|one, other| one.name == other.name);
    all
}
