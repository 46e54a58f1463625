//! The chat from its start to its end: one loop over signals, keys, events of the agent, room on the screen and ticks.
//!
//! Entered lines are prompts while the agent is idle, and steer it while it works. A command of the host runs beside the
//! loop ([`ChatTask`]); lines that are entered meanwhile wait for it. What ctrl-c does is decided by
//! [`Interrupts`].

use std::{
    fs::File,
    io,
    os::fd::AsFd as _,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use crow_console::{
    ConsoleRenderer, Keyboard, LineInputBuffer, PumpEnd, QuestionQueue, ScreenThread, SignalAction,
    Signals,
};
use crow_core::{
    event::{AgentEvent, Envelope},
    message::Block,
    model::Models,
};
use crow_runtime::{AgentEnd, AgentHandle, AgentHost, EventStream, SessionStore};
use futures_util::StreamExt as _;
use jiff::Timestamp;
use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval, sleep_until},
};

use super::{
    agent_work::AgentWork,
    attention::{UserAttention, ask_background, on_attention_tick, on_report, update_attention},
    chat_commands::{ChatLine, listed_commands, start_command},
    chat_input::ChatInput,
    chat_screen::{ChatScreen, ScreenWriter, screen_size},
    chat_setup::{ChatEnd, ChatError, ChatSetup},
    external_editor::{RunningEditor, editor_end, end_editor, start_editor},
    file_completion::{FileCompletion, on_file_matches},
    full_screen_views::{
        OpenView, close_view, on_view_event, on_view_tick, open_prompts, open_transcript,
    },
    greeting::{farewell, greeting_sources, session_greeting, show_greeting},
    interrupts::{ChatPhase, InterruptAction, Interrupts},
    local_commands::cycle_permissions,
    pasted_images::{ImageReader, PastedImages, blocks_of, end_image_read, on_paste},
    prompt_history::PromptHistoryFile,
    question_panel::QuestionPanel,
    questions::{
        answer, answer_in_words, ask_again, ask_next, on_question_key, on_question_tick,
        question_titles, refuse,
    },
    session_status::{refresh_status, update_work_facts},
    terminal_handover::{release_terminal, suspend, take_terminal},
    terminal_modes::ChatTerminalModes,
    user_shell::{UserCommandRun, next_output, start_user_command},
    waiting_lines::WaitingLines,
};
use crate::{
    editor::{ChipId, EditingStyle},
    inline_screen::InlineScreen,
    input_decoder::InputDecoder,
    keys::{InputEvent, KeyCode},
    live_region::ResizeBehavior,
    prompt_input::{EnteredLine, InputAction, PromptInput},
    screen_size::ScreenSize,
    shortcut_help::{KeyMode, ShortcutContext, shortcut_hints},
    status_line::{StatusFacts, StatusTemplate},
    terminal_control::Notifier,
    theme::Theme,
};

/// Interval at which the waits are redrawn.
const TICK: Duration = Duration::from_millis(100);
/// Mark before the prompt, and before an answer to a question.
const PROMPT: &str = "> ";
const ANSWER: &str = "? ";
/// Time after which the byte of escape is the key, and not the beginning of another one.
const ESCAPE_WAIT: Duration = Duration::from_millis(30);
/// Time between two escapes that belong together.
const DOUBLE_ESCAPE: Duration = Duration::from_millis(800);
/// Rows of a terminal from which on the useful keys are shown.
const ROWS_FOR_HINTS: usize = 20;
/// Message after the first ctrl-c at the prompt.
const LEAVES: &str = "ctrl-c again or /quit leaves";

/// Result of a task beside the loop: what the chat does with it.
pub(super) type TaskResult = Box<dyn FnOnce(&mut ChatLoop) -> Result<(), ChatError> + Send>;
/// A task that runs beside the loop.
pub(super) type ChatTask = Pin<Box<dyn Future<Output = TaskResult> + Send>>;

/// State of a chat at a terminal.
pub(super) struct ChatLoop {
    pub(super) host: Arc<dyn AgentHost>,
    pub(super) store: Arc<dyn SessionStore>,
    pub(super) models: Arc<dyn Models>,
    pub(super) handle: AgentHandle,
    pub(super) events: EventStream,
    /// Retention of the current session when the chat leaves it.
    pub(super) retention: SessionRetention,
    pub(super) screen: ScreenThread<ChatScreen>,
    pub(super) signals: Signals,
    keyboard: Keyboard,
    decoder: InputDecoder,
    /// Time of the last bytes that were read.
    last_input: tokio::time::Instant,
    pub(super) typing: ChatInput,
    history: PromptHistoryFile,
    /// The facts of the status line below the prompt.
    pub(super) status: StatusFacts,
    status_template: StatusTemplate,
    /// True if the facts of the status line may have changed.
    pub(super) is_status_due: bool,
    /// Name of the session's folder, shown in the title of the terminal.
    pub(super) title_subject: String,
    pub(super) attention: UserAttention,
    /// True if the terminal shows colours.
    pub(super) is_coloured: bool,
    /// Keys of the prompt.
    pub(super) keys: EditingStyle,
    /// The size of the terminal when the prompt was shown.
    shown_size: Option<ScreenSize>,
    pub(super) modes: ChatTerminalModes,
    pub(super) questions: QuestionQueue,
    /// The list of answers to the open question.
    pub(super) panel: Option<QuestionPanel>,
    /// The view that takes the whole screen.
    pub(super) view: Option<OpenView>,
    pub(super) files: FileCompletion,
    pub(super) images: PastedImages,
    /// Time of an escape at the prompt, of which a second one goes back to an earlier prompt.
    escaped: Option<Instant>,
    pub(super) interrupts: Interrupts,
    pub(super) work: AgentWork,
    task: Option<ChatTask>,
    /// A task that no one waits for: reading the facts of the status line.
    quiet_task: Option<ChatTask>,
    /// The editor of the user that has the terminal.
    pub(super) external_editor: Option<RunningEditor>,
    /// The command of the user that is the task.
    pub(super) user_command: Option<UserCommandRun>,
    /// Outputs of commands of the user, for the next prompt.
    pub(super) context_of_next_prompt: Vec<String>,
    waiting_lines: WaitingLines,
    /// True if plain lines end with a prompt, behind which the terminal shows what is typed.
    has_line_prompt: bool,
    pub(super) end: Option<ChatEnd>,
    pub(super) setup: SetupFacts,
}

/// The parts of a [`ChatSetup`] that are needed after the start.
pub(super) struct SetupFacts {
    pub(super) home: Option<std::path::PathBuf>,
    pub(super) program: String,
    pub(super) columns: usize,
    /// The command of the user's editor.
    pub(super) editor: Option<String>,
    /// The shell for the user's commands.
    pub(super) shell: String,
    pub(super) read_image: ImageReader,
    pub(super) describe_error: fn(crow_runtime::HostError) -> super::ErrorDescription,
}

/// Retention of a session when the chat leaves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionRetention {
    /// It has a prompt, or existed before.
    Yes,
    /// It was created for this chat and has no prompt yet: it is deleted.
    NotYet,
}

/// Runs a chat until the user leaves. The sessions that it opened stay open: the caller shuts the host down.
///
/// # Errors
/// Fails if the terminal cannot be used, or if the agent ends by itself.
pub async fn chat(setup: ChatSetup) -> Result<ChatEnd, ChatError> {
    let is_resumed = setup.is_resumed;
    let first_prompt = setup.first_prompt.clone();
    let mut chat = ChatLoop::new(setup).await?;
    let end = chat.run(is_resumed, first_prompt).await;
    chat.close().await;
    end
}

impl ChatLoop {
    async fn new(setup: ChatSetup) -> Result<Self, ChatError> {
        let ChatSetup { host, handle, style, term, options, environment, .. } = setup;
        let notifier = Notifier::new(options.notifications, &environment);
        let attention = UserAttention::new(environment, options.theme, notifier);
        let modes = if style.live {
            ChatTerminalModes::keys(&term).map_err(ChatError::Terminal)?
        } else {
            ChatTerminalModes::lines()
        };
        let history = PromptHistoryFile::new(setup.data_dir.as_deref());
        let (typing, screen) = if modes.is_live() {
            let commands = host.commands(handle.session_id()).await?;
            let mut typing = PromptInput::new(listed_commands(commands), history.read());
            typing.set_keys(options.keys);
            let resize = ResizeBehavior::of_terminal(&term, attention.multiplexer());
            let theme = if style.colour { attention.current_theme() } else { Theme::Monochrome };
            let size = screen_size().unwrap_or(ScreenSize { columns: style.width, rows: 24 });
            // Without a buffer: a frame reaches the terminal in one piece.
            let output = io::stdout().as_fd().try_clone_to_owned().map_err(ChatError::Terminal)?;
            let output = File::from(output);
            let writer: ScreenWriter = match &setup.recording {
                Some(recording) => recording.writer(output),
                None => Box::new(output),
            };
            let screen = InlineScreen::new(writer, size, theme, resize, style);
            (ChatInput::Editor(Box::new(typing)), ChatScreen::Inline(Box::new(screen)))
        } else {
            let renderer = ConsoleRenderer::new(style, io::stdout(), io::stderr());
            (ChatInput::Lines(LineInputBuffer::default()), ChatScreen::Lines(Box::new(renderer)))
        };
        let signals =
            Signals::new().and_then(Signals::with_continue).map_err(ChatError::Terminal)?;
        let mut chat = Self {
            events: handle.stream().ok_or(ChatError::EventsInUse)?,
            retention: SessionRetention::NotYet,
            screen: ScreenThread::start(screen),
            signals,
            keyboard: Keyboard::new().map_err(ChatError::Terminal)?,
            decoder: InputDecoder::default(),
            last_input: tokio::time::Instant::now(),
            typing,
            history,
            status: StatusFacts::default(),
            status_template: options.status_line,
            is_status_due: true,
            title_subject: String::new(),
            attention,
            is_coloured: style.colour,
            keys: options.keys,
            shown_size: None,
            modes,
            questions: QuestionQueue::default(),
            panel: None,
            view: None,
            files: FileCompletion::new(),
            images: PastedImages::default(),
            escaped: None,
            interrupts: Interrupts::default(),
            work: AgentWork::default(),
            task: None,
            quiet_task: None,
            external_editor: None,
            user_command: None,
            context_of_next_prompt: Vec::new(),
            waiting_lines: WaitingLines::default(),
            has_line_prompt: false,
            end: None,
            host,
            store: setup.store,
            models: setup.models,
            handle,
            setup: SetupFacts {
                home: setup.home,
                program: setup.program,
                columns: style.width,
                editor: setup.editor,
                shell: setup.shell,
                read_image: setup.read_image,
                describe_error: setup.describe_error,
            },
        };
        for warning in setup.warnings {
            chat.say(format!("note: {warning}"));
        }
        Ok(chat)
    }

    /// Runs the chat until the user leaves.
    async fn run(
        &mut self,
        is_resumed: bool,
        first_prompt: Option<String>,
    ) -> Result<ChatEnd, ChatError> {
        if is_resumed {
            self.retention = SessionRetention::Yes;
        }
        take_terminal(self);
        let greeting = session_greeting(greeting_sources(self), &self.handle, is_resumed).await?;
        show_greeting(self, greeting);
        ask_background(self);
        if let Some(prompt) = first_prompt {
            // It is a prompt whatever it begins with.
            self.echo(&prompt);
            self.send_prompt(vec![Block::text(prompt)].into())?;
        }
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if let Some(end) = self.end {
                return Ok(end);
            }
            ask_next(self);
            self.take_waiting_lines()?;
            self.show_line_prompt();
            update_attention(self);
            // No events are taken while the screen is full, or while the end of the run waits to be shown.
            let has_room = self.screen.has_room() && !self.work.has_ended();
            tokio::select! {
                biased;
                action = self.signals.next() => self.on_signal(action),
                edited = editor_end(&mut self.external_editor) => end_editor(self, edited),
                typed = self.keyboard.read(), if self.external_editor.is_none() => match typed {
                    Ok(bytes) => self.on_bytes(&bytes).await?,
                    Err(_) => return Ok(ChatEnd::Interrupted),
                },
                result = task_result(&mut self.task) => {
                    self.task = None;
                    result(self)?;
                    self.show_input();
                }
                result = task_result(&mut self.quiet_task) => {
                    self.quiet_task = None;
                    result(self)?;
                    self.show_input();
                }
                read = self.images.next_read() => end_image_read(self, read),
                () = self.files.changed() => on_file_matches(self),
                () = sleep_until(self.last_input + ESCAPE_WAIT), if self.decoder.needs_flush() => {
                    let events = self.decoder.flush();
                    self.on_input_events(events).await?;
                }
                text = next_output(&mut self.user_command), if has_room => self.say(text),
                event = self.events.next(), if has_room => match event {
                    Some(event) => self.on_events(event),
                    None => return Err(self.failure().await),
                },
                pumped = self.screen.pump() => match pumped {
                    PumpEnd::Room => {}
                    PumpEnd::Failed => return Err(ChatError::Output),
                },
                _ = self.handle.wait_for_end(), if has_room => return Err(self.failure().await),
                _ = ticks.tick() => self.on_tick(),
            }
            if self.work.has_ended() {
                self.show_end().await;
            }
        }
    }

    /// Returns the error for an agent that ended by itself.
    async fn failure(&self) -> ChatError {
        let end: Arc<AgentEnd> = self.handle.wait_for_end().await;
        let message = match &end.result {
            Ok(()) => "the agent has ended".to_owned(),
            Err(error) => error.clone(),
        };
        let is_shown = message == self.work.error;
        ChatError::AgentEnded { message, is_shown }
    }

    /// Returns the phase that decides what ctrl-c does.
    fn phase(&self) -> ChatPhase {
        if self.work.is_busy() || self.task.is_some() { ChatPhase::Work } else { ChatPhase::Prompt }
    }

    fn on_signal(&mut self, action: SignalAction) {
        match action {
            SignalAction::End => self.end = Some(ChatEnd::Interrupted),
            // It is meant for the editor, which has the terminal.
            SignalAction::Interrupt | SignalAction::Continue if self.external_editor.is_some() => {}
            SignalAction::Interrupt => self.interrupt(),
            SignalAction::Continue => {
                take_terminal(self);
                ask_again(self);
            }
        }
    }

    /// Handles ctrl-c, or escape while the agent works.
    fn interrupt(&mut self) {
        let phase = self.phase();
        if !self.waiting_lines.is_empty() {
            self.take_back_waiting_lines();
        } else if !self.work.is_busy() && !self.typing.replace(String::new()).is_empty() {
            // The first one clears what was typed, as in a shell.
            return self.show_input();
        }
        match (self.interrupts.press(phase), phase) {
            (InterruptAction::Leave, ChatPhase::Prompt) => self.end = Some(ChatEnd::UserLeft),
            (InterruptAction::Leave, ChatPhase::Work) => self.end = Some(ChatEnd::Interrupted),
            (InterruptAction::Stop | InterruptAction::Warn, ChatPhase::Prompt) => {
                self.leave_line_prompt();
                self.say(LEAVES.to_owned());
            }
            (InterruptAction::Stop | InterruptAction::Warn, ChatPhase::Work) => {
                if self.work.is_busy() {
                    self.stop_agent();
                } else if let Some(running) = &self.user_command {
                    running.interrupt();
                } else {
                    self.say("the command is not done yet; ctrl-c again leaves".to_owned());
                }
            }
        }
    }

    async fn on_bytes(&mut self, bytes: &[u8]) -> Result<(), ChatError> {
        if !self.modes.is_live() {
            let actions = if bytes.is_empty() {
                vec![InputAction::EndOfInput]
            } else {
                self.typing.push_line_bytes(bytes)
            };
            return self.on_actions(actions).await;
        }
        if bytes.is_empty() {
            // Keys that arrive one by one do not end the input: an empty read means that the terminal is gone.
            self.end = Some(ChatEnd::Interrupted);
            return Ok(());
        }
        self.last_input = tokio::time::Instant::now();
        let events = self.decoder.push(bytes);
        self.on_input_events(events).await
    }

    async fn on_input_events(&mut self, events: Vec<InputEvent>) -> Result<(), ChatError> {
        let mut actions = Vec::new();
        for event in events {
            if self.view.is_some() {
                self.on_actions(std::mem::take(&mut actions)).await?;
                on_view_event(self, event)?;
                continue;
            }
            if matches!(&event, InputEvent::Key(key) if key.code != KeyCode::Escape) {
                self.escaped = None;
            }
            if let InputEvent::Key(key) = &event
                && self.panel.is_some()
            {
                // Keys before it may have entered a line.
                self.on_actions(std::mem::take(&mut actions)).await?;
                if on_question_key(self, *key) {
                    continue;
                }
            }
            on_report(self, &event);
            let event = match event {
                InputEvent::Paste(text) if self.modes.is_live() => {
                    self.on_actions(std::mem::take(&mut actions)).await?;
                    on_paste(self, text);
                    continue;
                }
                event => event,
            };
            let Some(action) = self.typing.on_event(event) else { continue };
            let is_line = matches!(action, InputAction::Line(_));
            actions.push(action);
            if !is_line {
                // It may change the text before the next key does.
                self.on_actions(std::mem::take(&mut actions)).await?;
            }
        }
        self.on_actions(actions).await?;
        self.show_input();
        Ok(())
    }

    async fn on_actions(&mut self, actions: Vec<InputAction>) -> Result<(), ChatError> {
        // Lines that arrive together are sent as one input: the queue of inputs is short.
        let mut steering: Vec<EnteredLine> = Vec::new();
        for action in actions {
            match action {
                InputAction::Line(line) => {
                    self.has_line_prompt = false;
                    self.on_line(line, &mut steering)?;
                }
                InputAction::Interrupt => self.interrupt(),
                InputAction::Escape if self.phase() == ChatPhase::Work => self.stop(),
                InputAction::Escape => self.on_escape(),
                InputAction::Transcript => open_transcript(self),
                InputAction::EndOfInput => self.on_end_of_input(),
                InputAction::Suspend => {
                    self.steer(&mut steering);
                    suspend(self).await;
                }
                InputAction::ExternalEditor => start_editor(self).await,
                InputAction::CyclePermissions => cycle_permissions(self),
                InputAction::Redraw => {
                    self.screen.push_action(ChatScreen::clear);
                    ask_again(self);
                }
            }
            if self.end.is_some() {
                break;
            }
        }
        self.steer(&mut steering);
        Ok(())
    }

    /// Handles escape while the agent works or a command runs: it stops them, and never leaves.
    fn stop(&mut self) {
        if self.work.is_busy() {
            self.take_back_waiting_lines();
            self.stop_agent();
        } else if let Some(running) = &self.user_command {
            running.interrupt();
        }
    }

    /// Puts the lines that wait back on the input line: they are not carried out after all.
    fn take_back_waiting_lines(&mut self) {
        if !self.waiting_lines.is_empty() {
            let lines = self.waiting_lines.take_joined();
            self.typing.put_before(&lines.text, &lines.images);
            self.show_input();
        }
    }

    /// Handles escape at the prompt: the second one lists the earlier prompts.
    fn on_escape(&mut self) {
        let before = self.escaped.replace(Instant::now());
        if before.is_some_and(|before| before.elapsed() < DOUBLE_ESCAPE) {
            self.escaped = None;
            open_prompts(self);
        }
    }

    fn on_end_of_input(&mut self) {
        if self.questions.is_open() {
            refuse(self);
        } else if self.phase() == ChatPhase::Prompt {
            self.end = Some(ChatEnd::UserLeft);
        } else if self.modes.is_live() {
            self.say("the agent is working; esc stops it".to_owned());
        }
    }

    /// Handles an entered line: an answer, a prompt, a command, or text for the working agent, which is collected in
    /// `steering`.
    fn on_line(
        &mut self,
        line: EnteredLine,
        steering: &mut Vec<EnteredLine>,
    ) -> Result<(), ChatError> {
        if self.questions.is_open() {
            if !self.modes.is_live() {
                answer(self, &line.text);
                return Ok(());
            }
            if answer_in_words(self, &line.text) {
                return Ok(());
            }
        }
        let parsed = ChatLine::parse(&line.text);
        if parsed != ChatLine::Nothing {
            self.interrupts.reset();
        }
        if self.must_lines_wait() {
            self.waiting_lines.push(line);
            return Ok(());
        }
        if parsed != ChatLine::Nothing {
            self.remember(&line.text);
        }
        match parsed {
            ChatLine::Nothing if steering.is_empty() => {}
            ChatLine::Nothing => steering.push(EnteredLine::default()),
            ChatLine::Prompt(_) if self.work.is_busy() => steering.push(line),
            ChatLine::Prompt(_) => {
                self.echo(&line.shown);
                let blocks = blocks_of(self, &line);
                self.send_prompt(blocks.into())?;
            }
            ChatLine::Shell(_) if self.work.is_busy() => {
                self.say("the agent is working; esc stops it".to_owned());
                self.typing.put_before(&line.text, &line.images);
            }
            ChatLine::Shell(command) => {
                self.echo(&line.shown);
                start_user_command(self, command);
            }
            ChatLine::Command { name, argument } => {
                self.steer(steering);
                self.echo(&line.shown);
                start_command(self, name, argument);
            }
        }
        Ok(())
    }

    /// Handles the lines that waited for the end of a task or the start of a run, until one of them starts another.
    fn take_waiting_lines(&mut self) -> Result<(), ChatError> {
        let mut steering = Vec::new();
        let waiting = self.waiting_lines.len();
        // They are no answers to a question that came later, and no view may be open that changes what they do.
        while !self.must_lines_wait()
            && self.end.is_none()
            && self.view.is_none()
            && !self.questions.is_open()
            && let Some(line) = self.waiting_lines.pop()
        {
            self.on_line(line, &mut steering)?;
        }
        self.steer(&mut steering);
        if self.waiting_lines.len() != waiting {
            self.show_input();
        }
        Ok(())
    }

    fn on_tick(&mut self) {
        on_question_tick(self);
        on_attention_tick(self);
        if self.is_status_due && self.quiet_task.is_none() {
            refresh_status(self);
        }
        on_view_tick(self);
        if update_work_facts(self) || screen_size() != self.shown_size {
            self.show_input();
        }
        self.screen.tick(Timestamp::now());
    }

    /// Returns true if a task runs beside the loop.
    pub(super) fn has_task(&self) -> bool {
        self.task.is_some()
    }

    /// Returns true if entered lines have to wait: for a task, for the start of a run, or for images that are being read.
    fn must_lines_wait(&self) -> bool {
        self.task.is_some() || self.work.is_requested() || self.images.are_being_read()
    }

    /// Replaces the label of an image by a text, in the prompt and in lines that wait.
    pub(super) fn replace_image(&mut self, image: ChipId, text: &str) {
        if self.typing.editor().is_some_and(|editor| editor.replace_image(image, text)) {
            return;
        }
        self.waiting_lines.replace_image(image, text);
    }

    /// Forgets the session that the chat leaves: its outputs, its usage, and facts that are still being read.
    pub(super) fn forget_session(&mut self) {
        self.context_of_next_prompt.clear();
        self.work = AgentWork::default();
        self.screen.push_action(|screen| {
            screen.forget_activity();
            Ok(())
        });
        self.quiet_task = None;
        self.is_status_due = true;
    }

    /// Starts a task beside the loop.
    pub(super) fn start_task(&mut self, task: ChatTask) {
        self.task = Some(task);
    }

    /// Starts a task that no one waits for.
    pub(super) fn start_quiet_task(&mut self, task: ChatTask) {
        self.quiet_task = Some(task);
    }

    /// Keeps a prompt for later sessions.
    fn remember(&mut self, line: &str) {
        // As in a shell.
        if line.starts_with(' ') {
            return;
        }
        let Some(editor) = self.typing.editor() else { return };
        editor.remember(line);
        if let Err(error) = self.history.add(line) {
            self.say(format!("note: prompts are not kept for later sessions: {error}"));
            self.history = PromptHistoryFile::new(None);
        }
    }

    /// Shows a message.
    pub(super) fn say(&mut self, text: String) {
        self.leave_line_prompt();
        self.screen.push_action(move |screen| screen.show_message(&text));
    }

    /// Shows a message dimly.
    pub(super) fn say_dimly(&mut self, text: String) {
        self.leave_line_prompt();
        self.screen.push_action(move |screen| screen.show_dim_message(&text));
    }

    /// Shows the prompt with its text, and the list of answers if a question is open.
    pub(super) fn show_input(&mut self) {
        if self.view.is_some() {
            return;
        }
        let Some(size) = screen_size() else { return };
        let Some(editor) = self.typing.editor() else { return };
        let wants_files = editor.file_query().map(str::to_owned);
        self.files.request(wants_files, || self.handle.metadata().crow().cwd);
        self.shown_size = Some(size);
        let now = Instant::now();
        let mark = if self.panel.as_ref().is_some_and(QuestionPanel::is_typing_words) {
            ANSWER
        } else {
            PROMPT
        };
        let columns = size.columns.saturating_sub(1).max(2);
        let mut view = editor.view(size, mark);
        view.below.push(self.status_template.render(&self.status, columns));
        if size.rows >= ROWS_FOR_HINTS && !editor.is_popup_open() {
            let context = match (&self.panel, self.work.is_busy()) {
                (Some(_), _) => ShortcutContext::QuestionOpen,
                (None, _) if editor.is_searching() => ShortcutContext::HistorySearch,
                (None, true) => ShortcutContext::Working,
                (None, false) if editor.is_empty() => ShortcutContext::EmptyPrompt,
                (None, false) => ShortcutContext::PromptWithText,
            };
            let mode = match (self.keys, editor.is_in_normal_mode()) {
                (EditingStyle::Emacs, _) => KeyMode::Emacs,
                (EditingStyle::Vi, false) => KeyMode::ViInsert,
                (EditingStyle::Vi, true) => KeyMode::ViNormal,
            };
            view.below.push(shortcut_hints(context, mode, columns));
        }
        view.above.extend(self.waiting_lines.rows(size));
        if let Some(panel) = &self.panel {
            let most = size.rows.saturating_sub(view.rows.len() + view.above.len() + 2);
            view.above.extend(panel.rows(
                columns,
                most,
                &question_titles(&self.questions),
                editor.text(),
                now,
            ));
        }
        self.screen.push_replaceable(move |screen| screen.set_view(view));
    }

    /// Shows a prompt on plain lines, unless there is one.
    fn show_line_prompt(&mut self) {
        let is_ready =
            self.phase() == ChatPhase::Prompt && !self.questions.is_open() && self.screen.is_idle();
        if self.modes.is_live() || self.has_line_prompt || !is_ready {
            return;
        }
        self.has_line_prompt = true;
        self.screen.push_action(|screen| screen.show_line_prompt(PROMPT));
    }

    /// Ends the line of a prompt on plain lines, because something is shown below it.
    pub(super) fn leave_line_prompt(&mut self) {
        if std::mem::take(&mut self.has_line_prompt) {
            self.screen.push_action(|screen| screen.show_line_prompt("\n"));
        }
    }

    /// Shows how to resume the session; deletes a session without a prompt.
    async fn close(&mut self) {
        match self.retention {
            SessionRetention::Yes if self.is_stored().await => {
                self.say(farewell(self.handle.session_id().as_str()));
            }
            SessionRetention::Yes => {}
            SessionRetention::NotYet => {
                let id = self.handle.session_id().clone();
                drop(self.host.delete(&id).await);
            }
        }
        close_view(self);
        self.leave_line_prompt();
        self.screen.push_action(ChatScreen::leave);
        release_terminal(self).await;
    }

    /// Returns true if the stored log contains user input. It can be missing, for example after a full disk.
    async fn is_stored(&self) -> bool {
        let (store, id) = (Arc::clone(&self.store), self.handle.session_id().clone());
        let stored = spawn_blocking(move || store.read(&id)).await;
        let is_input = |envelope: &Envelope| matches!(envelope.event, AgentEvent::UserInput { .. });
        stored.is_ok_and(|stored| stored.is_ok_and(|stored| stored.events.iter().any(is_input)))
    }
}

/// Waits for the result of a task; forever if there is none.
async fn task_result(task: &mut Option<ChatTask>) -> TaskResult {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}
