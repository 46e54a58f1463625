//! The chat from its start to its end: reads prompts, sends them to the agent, and switches between sessions.
//!
//! The chat alternates between two states. At the prompt, a line editor reads on a blocking thread while this task
//! handles signals, keys and late events ([`ChatLoop::prompt`]). While the agent works, keys are handled here and the
//! editor rests in `editor` (see `agent_work.rs`). [`Interrupts`] decides what ctrl-c does in either state.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use crow_app::{Audience, ProcessEnvironment, host::ProductHost};
use crow_console::{ExitCode, Keyboard, LineInputBuffer, QuestionQueue};
use crow_core::{
    event::{AgentEvent, Envelope},
    ids::SessionId,
    message::{Block, UserPrompt},
    model::Models,
};
use crow_runtime::{AgentEnd, AgentHandle, AgentHost as _, EventStream, SessionStore};
use crow_terminal::{InputAction, PromptInput, ScreenSize, StyledLine};
use futures_util::StreamExt as _;
use tokio::{sync::Notify, task::spawn_blocking, time::timeout};

use super::{
    agent_work::AgentWork,
    chat_input::ChatInput,
    commands::{ALIASES, CHAT_COMMANDS, ChatLine},
    editor::{EditorOutcome, LineEditor, PROMPT},
    feed::{InputFeed, Pastes},
    greeting::{ChatGreeting, farewell, recap},
    inline_prompt::{earlier_prompts, inline_prompt, listed, show_entered},
    modes::{EscapeSupport, Modes, TerminalModeGuard},
    status_line::refresh_status,
};
use crate::{
    args::{ChatArgs, OutputForm},
    error::CliError,
    run::{
        AgentRequest, ProductLaunch, RunSink, SHUTDOWN, ScreenThread, SignalAction, Signals,
        StartedAgent, event_stream, launch,
    },
    terminal::{console_style, print_message},
};

/// Runs the chat and returns the exit code of the process.
pub(crate) async fn chat(
    args: ChatArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let ChatArgs { agent, session, prompt, inline } = args;
    let mut request = AgentRequest::of_chat(agent, session)?;
    if !request.choose_session(environment)? {
        return Ok(ExitCode::Done);
    }
    if prompt.as_ref().is_some_and(|prompt| prompt.trim().is_empty()) {
        return Err(CliError::usage("--prompt: the prompt is empty"));
    }
    let parts = ProductLaunch::new(&request, Audience::Person, environment)?;
    let (store, models) = (Arc::clone(&parts.store), Arc::clone(&parts.models));
    let launched = launch(parts).await?;
    let capable =
        if console_style(environment).live { EscapeSupport::Yes } else { EscapeSupport::No };
    let terminal = Modes::read(capable)
        .map_err(|error| CliError::failed(format!("the terminal cannot be used: {error}")))?;
    // The guard restores the terminal however the chat ends; it is dropped explicitly before the exit code is
    // returned.
    let restore = TerminalModeGuard(terminal.clone());
    let mut conversation =
        ChatLoop::new(launched, environment.clone(), store, models, (terminal, inline)).await?;
    let is_stored = request.resume.is_some() && !request.fork;
    let retention = if is_stored { SessionRetention::Yes } else { SessionRetention::NotYet };
    let end = conversation.run(retention, prompt).await;
    conversation.close().await;
    let telemetry_message = conversation.host.shut_down(SHUTDOWN).await;
    drop(restore);
    if let Some(message) = telemetry_message {
        print_message(&message);
    }
    match end {
        Ok(ChatEnd::UserLeft) => Ok(ExitCode::Done),
        Ok(ChatEnd::Interrupted) => Ok(ExitCode::Interrupted),
        // The error is on the screen already, so only the exit code is returned.
        Err(error) if error.message == conversation.work.error => Ok(error.exit),
        Err(error) => Err(error),
    }
}

/// Time the last output may take to reach the screen.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// State of a chat at a terminal.
pub(super) struct ChatLoop {
    pub(super) host: ProductHost,
    pub(super) environment: ProcessEnvironment,
    pub(super) store: Arc<dyn SessionStore>,
    pub(super) models: Arc<dyn Models>,
    pub(super) handle: AgentHandle,
    pub(super) events: EventStream,
    /// Retention of the current session when the chat leaves it.
    pub(super) retention: SessionRetention,
    pub(super) screen: ScreenThread,
    pub(super) signals: Signals,
    pub(super) keyboard: Keyboard,
    pub(super) typing: ChatInput,
    /// Actions that came together with one that ended the prompt.
    pub(super) ahead: VecDeque<InputAction>,
    /// The status line below the prompt of an inline screen.
    pub(super) status: StyledLine,
    /// The size of the terminal when the prompt of an inline screen was shown.
    pub(super) shown_size: Option<ScreenSize>,
    pub(super) modes: Modes,
    pub(super) questions: QuestionQueue,
    pub(super) interrupts: Interrupts,
    pub(super) work: AgentWork,
    /// The line editor; `None` while it reads on another thread.
    editor: Option<LineEditor>,
    /// Input of the editor; `None` if the terminal delivers whole lines.
    pub(super) feed: Option<InputFeed>,
    pub(super) pastes: Pastes,
}

/// Retention of a session when the chat leaves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionRetention {
    /// It has a prompt, or existed before.
    Yes,
    /// It was created for this chat and has no prompt yet: it is deleted.
    NotYet,
}

/// Reason for the end of the chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChatEnd {
    /// The user left.
    UserLeft,
    /// The user did not wait for the agent to stop, or a signal ended the program.
    Interrupted,
}

/// Result of one prompt.
pub(super) enum PromptOutcome {
    Line(String),
    Left(ChatEnd),
}

impl ChatLoop {
    async fn new(
        launched: StartedAgent,
        environment: ProcessEnvironment,
        store: Arc<dyn SessionStore>,
        models: Arc<dyn Models>,
        (terminal, inline): (Modes, bool),
    ) -> Result<Self, CliError> {
        let StartedAgent { host, handle, warnings, .. } = launched;
        let commands = host.commands(handle.session_id()).await?;
        // Names for the completion: host commands, own commands and aliases.
        let names = commands.iter().chain(&CHAT_COMMANDS).map(|command| command.name.as_ref());
        let names = names.chain(ALIASES.map(|(alias, _)| alias));
        let mut names: Vec<String> = names.map(|name| format!("/{name}")).collect();
        names.sort();
        names.dedup();
        let history = environment.data_dir().ok().map(|folder| folder.join("prompts"));
        let is_inline = inline && terminal.is_live();
        let typing = if is_inline {
            let earlier = history.as_deref().map(earlier_prompts).unwrap_or_default();
            let all = listed(&commands);
            ChatInput::Editor(Box::new(PromptInput::new(all, earlier)))
        } else {
            ChatInput::Lines(LineInputBuffer::default())
        };
        let keyboard = Keyboard::new().map_err(|error| unreadable(&error))?;
        let still_reading = Arc::new(Notify::new());
        let pastes = Pastes::default();
        // Keys reach the editor through the feed only if the terminal delivers them one by one.
        let live =
            terminal.is_live().then(|| InputFeed::new(Arc::clone(&still_reading), pastes.clone()));
        let feed = live.transpose().map_err(|error| unreadable(&error))?;
        let editor =
            LineEditor::new(names, history, terminal.clone(), &still_reading, pastes.clone())
                .map_err(|error| {
                    CliError::failed(format!("the terminal cannot be used: {error}"))
                })?;
        let mut conversation = Self {
            events: event_stream(&handle)?,
            retention: SessionRetention::NotYet,
            screen: ScreenThread::start(if is_inline {
                RunSink::inline(&environment)
            } else {
                RunSink::new(OutputForm::Text, &environment)
            }),
            signals: Signals::new()?.with_continue()?,
            keyboard,
            typing,
            ahead: VecDeque::new(),
            status: StyledLine::default(),
            shown_size: None,
            questions: QuestionQueue::default(),
            interrupts: Interrupts::default(),
            work: AgentWork::default(),
            editor: Some(editor),
            feed,
            pastes,
            host,
            environment,
            store,
            models,
            handle,
            modes: terminal,
        };
        for warning in warnings {
            conversation.screen.push_say(format!("note: {warning}"));
        }
        Ok(conversation)
    }

    /// Runs the chat until the user leaves.
    async fn run(
        &mut self,
        retention: SessionRetention,
        mut first: Option<String>,
    ) -> Result<ChatEnd, CliError> {
        self.retention = retention;
        self.greet().await?;
        loop {
            let line = match first.take() {
                Some(line) => {
                    show_entered(self, line.trim());
                    line
                }
                None => match self.prompt().await? {
                    PromptOutcome::Left(end) => return Ok(end),
                    PromptOutcome::Line(line) => line,
                },
            };
            let end = match ChatLine::parse(&line) {
                ChatLine::Nothing => None,
                ChatLine::Command { name, argument } => {
                    self.command(&name, &argument, ChatPhase::Prompt).await?
                }
                ChatLine::Prompt(text) => self.send_prompt(vec![Block::text(text)].into()).await?,
            };
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    /// Sends input to the agent and shows its work until it is idle.
    pub(super) async fn send_prompt(
        &mut self,
        prompt: UserPrompt,
    ) -> Result<Option<ChatEnd>, CliError> {
        self.retention = SessionRetention::Yes;
        let sent = self.handle.send_prompt(prompt);
        sent.map_err(|error| CliError::failed(error.to_string()))?;
        self.follow().await
    }

    /// Shows how to resume the session; deletes a session without a prompt.
    async fn close(&mut self) {
        match self.retention {
            SessionRetention::Yes if self.is_stored().await => {
                self.screen.push_leave();
                self.screen.push_say(farewell(self.handle.session_id().as_str()));
            }
            SessionRetention::Yes => {}
            SessionRetention::NotYet => {
                let id = self.handle.session_id().clone();
                drop(self.host.delete(&id).await);
            }
        }
        self.screen.push_leave();
        // A terminal that accepts no output must not delay the end.
        drop(timeout(LAST_WORDS, self.screen.wait_until_shown()).await);
    }

    /// Returns true if the stored log contains user input. It can be missing, for example after a full disk.
    async fn is_stored(&self) -> bool {
        let (store, id) = (Arc::clone(&self.store), self.handle.session_id().clone());
        let stored = spawn_blocking(move || store.read(&id)).await;
        let is_said = |envelope: &Envelope| matches!(envelope.event, AgentEvent::UserInput { .. });
        stored.is_ok_and(|stored| stored.is_ok_and(|stored| stored.events.iter().any(is_said)))
    }

    /// Switches to another session; closes the previous one, or deletes it if it has no prompt.
    pub(super) async fn switch_to(
        &mut self,
        handle: AgentHandle,
        retention: SessionRetention,
    ) -> Result<(), CliError> {
        let events = event_stream(&handle)?;
        let before: SessionId = self.handle.session_id().clone();
        let result = match self.retention {
            SessionRetention::Yes => self.host.close(&before).await.map(drop),
            SessionRetention::NotYet => self.host.delete(&before).await,
        };
        (self.handle, self.events, self.retention) = (handle, events, retention);
        if let Err(error) = result {
            self.show_error(&CliError::from(error));
        }
        self.greet().await
    }

    /// Shows the greeting and, for a resumed session, a recap.
    async fn greet(&mut self) -> Result<(), CliError> {
        let options = self.host.options(self.handle.session_id()).await?;
        let value = |name: &str| {
            let option = options.iter().find(|option| option.name == name);
            option.map_or("", |option| option.value.as_str())
        };
        let crow = self.handle.metadata().crow();
        let greeting = ChatGreeting {
            model: value("model"),
            cwd: &crow.cwd,
            agent: value("agent"),
            mode: value("mode"),
            permissions: value("permissions"),
            resumed: (self.retention == SessionRetention::Yes).then_some(crow.title.as_str()),
        };
        self.screen.push_say(greeting.text(&self.environment));
        refresh_status(self).await;
        if self.retention == SessionRetention::Yes {
            let (store, id) = (Arc::clone(&self.store), self.handle.session_id().clone());
            // The recap is optional: a log that cannot be read is ignored.
            if let Ok(Ok(stored)) = spawn_blocking(move || store.read(&id)).await {
                let recap = recap(&stored.events);
                if !recap.is_empty() {
                    self.screen.push_dim_message(recap);
                }
            }
        }
        Ok(())
    }

    /// Reads a prompt with the line editor. Events that arrive meanwhile are shown as they come.
    async fn prompt(&mut self) -> Result<PromptOutcome, CliError> {
        if matches!(self.typing, ChatInput::Editor(_)) {
            return inline_prompt(self).await;
        }
        tokio::select! {
            biased;
            _ = self.signals.next() => return Ok(PromptOutcome::Left(ChatEnd::Interrupted)),
            shown = self.screen.wait_until_shown() => shown.map_err(|_| unwritable())?,
        }
        // Text typed while the agent worked becomes the draft; unfinished escape sequences and pastes go to the
        // editor as bytes.
        let Some(mut editor) = self.editor.take() else {
            return Err(CliError::failed("the prompt is gone"));
        };
        let unfinished = self.typing.take_unfinished();
        let draft = self.pastes.shown(self.typing.replace(String::new()));
        if let Some(feed) = &mut self.feed {
            feed.push(&unfinished);
            feed.begin();
        }
        // The editor blocks, so it reads on a thread and comes back with the result.
        let mut reading = spawn_blocking(move || {
            let entered = editor.read(&draft);
            (editor, entered)
        });
        loop {
            let has_room = self.screen.has_room();
            tokio::select! {
                biased;
                wish = self.signals.next() => match wish {
                    SignalAction::Interrupt => match self.interrupts.press(ChatPhase::Prompt) {
                        InterruptAction::Leave => return Ok(PromptOutcome::Left(ChatEnd::UserLeft)),
                        InterruptAction::Warn | InterruptAction::Stop => {
                            self.screen.push_prompt(format!("\n{LEAVES}\n{PROMPT}"));
                            let _ = self.screen.wait_until_shown().await;
                        }
                    },
                    SignalAction::End => return Ok(PromptOutcome::Left(ChatEnd::Interrupted)),
                    SignalAction::Continue => self.modes.prompt(),
                },
                read = &mut reading => {
                    let (editor, entered) = read.map_err(|error| CliError::failed(error.to_string()))?;
                    self.editor = Some(editor);
                    return self.entered(entered).await;
                }
                typed = keys(&self.keyboard, self.feed.as_mut()) => match typed {
                    Ok(bytes) if !bytes.is_empty() => {
                        self.feed.iter_mut().for_each(|feed| feed.push(&bytes));
                    }
                    Ok(_) | Err(_) => return Ok(PromptOutcome::Left(ChatEnd::Interrupted)),
                },
                Some(event) = self.events.next(), if has_room => self.on_events(event),
                end = self.handle.wait_for_end() => return Err(failure(&end)),
            }
        }
    }

    /// Handles what the editor returned.
    async fn entered(&mut self, entered: EditorOutcome) -> Result<PromptOutcome, CliError> {
        match entered {
            EditorOutcome::Line(line) => {
                if !line.is_empty() {
                    self.interrupts.reset();
                }
                Ok(PromptOutcome::Line(line))
            }
            EditorOutcome::Interrupt => match self.interrupts.press(ChatPhase::Prompt) {
                InterruptAction::Leave => Ok(PromptOutcome::Left(ChatEnd::UserLeft)),
                InterruptAction::Warn | InterruptAction::Stop => {
                    self.screen.push_say(LEAVES.to_owned());
                    Ok(PromptOutcome::Line(String::new()))
                }
            },
            EditorOutcome::Suspend(draft) => {
                self.typing.replace(draft);
                let end = self.stop().await;
                Ok(end.map_or(PromptOutcome::Line(String::new()), PromptOutcome::Left))
            }
            EditorOutcome::End => Ok(PromptOutcome::Left(ChatEnd::UserLeft)),
            EditorOutcome::Failed(error) => {
                Err(CliError::failed(format!("the terminal cannot be read: {error}")))
            }
        }
    }
}

/// Message after the first ctrl-c at the prompt.
pub(super) const LEAVES: &str = "ctrl-c again or /quit leaves";

/// Waits for keys, and passes waiting bytes on to the editor meanwhile. Without a feed the editor reads the terminal
/// itself, and this never returns.
async fn keys(keyboard: &Keyboard, feed: Option<&mut InputFeed>) -> io::Result<Vec<u8>> {
    let Some(feed) = feed else { return std::future::pending().await };
    tokio::select! {
        biased;
        error = feed.pump() => Err(error),
        typed = keyboard.read() => typed,
    }
}

fn unreadable(error: &io::Error) -> CliError {
    CliError::failed(format!("the terminal cannot be read: {error}"))
}

pub(super) fn unwritable() -> CliError {
    CliError::failed("the output cannot be written")
}

/// Returns the error for an agent that ended by itself.
pub(super) fn failure(end: &AgentEnd) -> CliError {
    match &end.result {
        Ok(()) => CliError::failed("the agent has ended"),
        Err(error) => CliError::failed(error),
    }
}

/// State of the chat when ctrl-c is pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChatPhase {
    /// It waits for a prompt.
    Prompt,
    /// The agent works.
    Work,
}

/// The effect of ctrl-c.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InterruptAction {
    /// The run is interrupted.
    Stop,
    /// A message says that a second ctrl-c leaves.
    Warn,
    /// The program ends.
    Leave,
}

/// Tracks consecutive presses of ctrl-c.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    last: Option<ChatPhase>,
}

impl Interrupts {
    /// Returns the effect of this press.
    pub(super) fn press(&mut self, phase: ChatPhase) -> InterruptAction {
        match (self.last.replace(phase), phase) {
            (Some(last), phase) if last == phase => InterruptAction::Leave,
            (_, ChatPhase::Prompt) => InterruptAction::Warn,
            (_, ChatPhase::Work) => InterruptAction::Stop,
        }
    }

    /// Starts anew: the next press counts as the first.
    pub(super) fn reset(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_stops_or_warns_and_the_second_leaves() {
        use ChatPhase::{Prompt, Work};
        use InterruptAction::{Leave, Stop, Warn};
        let table: [(&[ChatPhase], &[InterruptAction]); 4] = [
            (&[Work, Work], &[Stop, Leave]),
            (&[Prompt, Prompt], &[Warn, Leave]),
            (&[Work, Prompt, Prompt], &[Stop, Warn, Leave]),
            (&[Prompt, Work, Work], &[Warn, Stop, Leave]),
        ];
        for (phases, expected) in table {
            let mut interrupts = Interrupts::default();
            let decisions: Vec<_> = phases.iter().map(|phase| interrupts.press(*phase)).collect();
            assert_eq!(decisions, expected, "{phases:?}");
        }
    }

    #[test]
    fn a_reset_makes_the_next_press_the_first() {
        let mut interrupts = Interrupts::default();
        interrupts.press(ChatPhase::Work);
        interrupts.reset();
        assert_eq!(interrupts.press(ChatPhase::Work), InterruptAction::Stop);
    }
}
