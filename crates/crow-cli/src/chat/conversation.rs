//! The conversation: prompts, and what holds between them.

use std::{io, sync::Arc, time::Duration};

use crow_core::{
    event::{AgentEvent, Envelope},
    ids::SessionId,
    message::Block,
    model::Models,
};
use crow_runtime::{
    AgentEnd, AgentHandle, AgentHost as _, AgentRuntime, EventStream, SessionStore,
};
use futures_util::StreamExt as _;
use tokio::{sync::Notify, task::spawn_blocking, time::timeout};

use super::{
    command::{ALIASES, Entry, OWN},
    editor::{Entered, LineEditor, PROMPT},
    feed::Feed,
    greeting::{Greeting, farewell},
    interrupts::{Decision, Interrupts, Place},
    modes::Modes,
    pastes::Pastes,
    recap::recap,
    work::Work,
};
use crate::{
    CliError, Environment,
    host::ProductHost,
    run::{Keyboard, Launched, Questions, Screen, Signals, Sink, Typing, Wish},
};

/// How long the last words may take to reach the screen.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What a conversation is made of.
pub(super) struct Parts {
    pub(super) launched: Launched,
    pub(super) environment: Environment,
    pub(super) store: Arc<dyn SessionStore>,
    pub(super) models: Arc<dyn Models>,
    pub(super) sink: Sink,
    pub(super) modes: Modes,
}

/// A conversation at a terminal.
pub(super) struct Conversation {
    pub(super) host: ProductHost,
    pub(super) environment: Environment,
    pub(super) store: Arc<dyn SessionStore>,
    pub(super) models: Arc<dyn Models>,
    pub(super) handle: AgentHandle,
    pub(super) events: EventStream,
    /// Whether the session holds anything worth keeping.
    pub(super) kept: Kept,
    pub(super) screen: Screen,
    pub(super) signals: Signals,
    pub(super) keyboard: Keyboard,
    pub(super) typing: Typing,
    pub(super) modes: Modes,
    pub(super) questions: Questions,
    pub(super) interrupts: Interrupts,
    pub(super) work: Work,
    /// Away while it reads.
    editor: Option<LineEditor>,
    /// What the editor reads, where keys come one by one.
    pub(super) feed: Option<Feed>,
    pub(super) pastes: Pastes,
}

/// Whether a session stays when the chat leaves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// Something was said in it.
    Yes,
    /// It was made for this chat and nothing was said yet.
    NotYet,
}

/// Why the chat ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// The person left.
    Asked,
    /// The person would not wait for the agent to stop, or a signal said so.
    Interrupted,
}

/// What came of the prompt.
enum Said {
    Line(String),
    Left(Left),
}

impl Conversation {
    pub(super) async fn new(parts: Parts) -> Result<Self, CliError> {
        let Parts { launched, environment, store, models, sink, modes } = parts;
        let Launched { host, handle, warnings, .. } = launched;
        let commands = host.commands(handle.session_id()).await?;
        let names = commands.iter().chain(&OWN).map(|command| command.name.as_ref());
        let names = names.chain(ALIASES.map(|(alias, _)| alias));
        let mut names: Vec<String> = names.map(|name| format!("/{name}")).collect();
        names.sort();
        names.dedup();
        let history = environment.data_dir().ok().map(|folder| folder.join("prompts"));
        let keyboard = Keyboard::new().map_err(|error| unreadable(&error))?;
        let goes_on = Arc::new(Notify::new());
        let pastes = Pastes::default();
        let live = modes.is_live().then(|| Feed::new(Arc::clone(&goes_on), pastes.clone()));
        let feed = live.transpose().map_err(|error| unreadable(&error))?;
        let editor = LineEditor::new(names, history, modes.clone(), &goes_on, pastes.clone())
            .map_err(|error| CliError::failed(format!("the terminal cannot be used: {error}")))?;
        let mut conversation = Self {
            events: stream(&handle)?,
            kept: Kept::NotYet,
            screen: Screen::start(sink),
            signals: Signals::new()?.with_continue()?,
            keyboard,
            typing: Typing::default(),
            questions: Questions::default(),
            interrupts: Interrupts::default(),
            work: Work::default(),
            editor: Some(editor),
            feed,
            pastes,
            host,
            environment,
            store,
            models,
            handle,
            modes,
        };
        for warning in warnings {
            conversation.screen.push_say(format!("note: {warning}"));
        }
        Ok(conversation)
    }

    /// Talks until the person leaves.
    pub(super) async fn hold(&mut self, kept: Kept) -> Result<Left, CliError> {
        self.kept = kept;
        self.greet().await?;
        loop {
            let line = match self.prompt().await? {
                Said::Left(left) => return Ok(left),
                Said::Line(line) => line,
            };
            let left = match Entry::parse(&line) {
                Entry::Nothing => None,
                Entry::Command { name, argument } => {
                    self.command(&name, &argument, Place::Prompt).await?
                }
                Entry::Prompt(text) => self.tell(vec![Block::text(text)]).await?,
            };
            if let Some(left) = left {
                return Ok(left);
            }
        }
    }

    /// Says something to the agent, and follows what it does.
    pub(super) async fn tell(&mut self, content: Vec<Block>) -> Result<Option<Left>, CliError> {
        self.kept = Kept::Yes;
        let sent = self.handle.send_input(content);
        sent.map_err(|error| CliError::failed(error.to_string()))?;
        self.follow().await
    }

    /// Says how to go on, and removes a session in which nothing was said.
    pub(super) async fn close(&mut self) {
        match self.kept {
            Kept::Yes if self.is_stored().await => {
                self.screen.push_say(farewell(self.handle.session_id().as_str()));
            }
            Kept::Yes => {}
            Kept::NotYet => {
                let id = self.handle.session_id().clone();
                drop(self.host.delete(&id).await);
            }
        }
        // A terminal that takes nothing may not hold up the end.
        drop(timeout(LAST_WORDS, self.screen.shown()).await);
    }

    /// Returns whether something that was said can be read again: a full disk may have taken nothing.
    async fn is_stored(&self) -> bool {
        let (store, id) = (Arc::clone(&self.store), self.handle.session_id().clone());
        let stored = spawn_blocking(move || store.read(&id)).await;
        let is_said = |envelope: &Envelope| matches!(envelope.event, AgentEvent::UserInput { .. });
        stored.is_ok_and(|stored| stored.is_ok_and(|stored| stored.events.iter().any(is_said)))
    }

    pub(super) fn runtime(&self) -> &AgentRuntime {
        self.host.runtime()
    }

    /// Goes over to another session.
    pub(super) async fn turn_to(
        &mut self,
        handle: AgentHandle,
        kept: Kept,
    ) -> Result<(), CliError> {
        let events = stream(&handle)?;
        let before: SessionId = self.handle.session_id().clone();
        let left = match self.kept {
            Kept::Yes => self.host.close(&before).await.map(drop),
            Kept::NotYet => self.host.delete(&before).await,
        };
        (self.handle, self.events, self.kept) = (handle, events, kept);
        if let Err(error) = left {
            self.complain(&CliError::from(error));
        }
        self.greet().await
    }

    async fn greet(&mut self) -> Result<(), CliError> {
        let options = self.host.options(self.handle.session_id()).await?;
        let value = |name: &str| {
            let option = options.iter().find(|option| option.name == name);
            option.map_or("", |option| option.value.as_str())
        };
        let crow = self.handle.metadata().crow();
        let greeting = Greeting {
            model: value("model"),
            cwd: &crow.cwd,
            agent: value("agent"),
            mode: value("mode"),
            permissions: value("permissions"),
            resumed: (self.kept == Kept::Yes).then_some(crow.title.as_str()),
        };
        self.screen.push_say(greeting.text(&self.environment));
        if self.kept == Kept::Yes {
            let (store, id) = (Arc::clone(&self.store), self.handle.session_id().clone());
            // Without it the session goes on as well.
            if let Ok(Ok(stored)) = spawn_blocking(move || store.read(&id)).await {
                let recap = recap(&stored.events);
                if !recap.is_empty() {
                    self.screen.push_aside(recap);
                }
            }
        }
        Ok(())
    }

    /// Reads a prompt. Events that come meanwhile are shown behind it.
    async fn prompt(&mut self) -> Result<Said, CliError> {
        tokio::select! {
            biased;
            _ = self.signals.next() => return Ok(Said::Left(Left::Interrupted)),
            shown = self.screen.shown() => shown.map_err(|_| unwritable())?,
        }
        let Some(mut editor) = self.editor.take() else {
            return Err(CliError::failed("the prompt is gone"));
        };
        let unfinished = self.typing.take_unfinished();
        let draft = self.pastes.shown(self.typing.replace(String::new()));
        if let Some(feed) = &mut self.feed {
            feed.push(&unfinished);
            feed.begin();
        }
        let mut reading = spawn_blocking(move || {
            let entered = editor.read(&draft);
            (editor, entered)
        });
        loop {
            let has_room = self.screen.has_room();
            tokio::select! {
                biased;
                wish = self.signals.next() => match wish {
                    Wish::Interrupt => match self.interrupts.press(Place::Prompt) {
                        Decision::Leave => return Ok(Said::Left(Left::Asked)),
                        Decision::Warn | Decision::Stop => {
                            self.screen.push_prompt(format!("\n{LEAVES}\n{PROMPT}"));
                            let _ = self.screen.shown().await;
                        }
                    },
                    Wish::End => return Ok(Said::Left(Left::Interrupted)),
                    Wish::Continue => self.modes.prompt(),
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
                    Ok(_) | Err(_) => return Ok(Said::Left(Left::Interrupted)),
                },
                Some(event) = self.events.next(), if has_room => self.take(event),
                end = self.handle.ended() => return Err(failure(&end)),
            }
        }
    }

    async fn entered(&mut self, entered: Entered) -> Result<Said, CliError> {
        match entered {
            Entered::Line(line) => {
                if !line.is_empty() {
                    self.interrupts.reset();
                }
                Ok(Said::Line(line))
            }
            Entered::Interrupt => match self.interrupts.press(Place::Prompt) {
                Decision::Leave => Ok(Said::Left(Left::Asked)),
                Decision::Warn | Decision::Stop => {
                    self.screen.push_say(LEAVES.to_owned());
                    Ok(Said::Line(String::new()))
                }
            },
            Entered::Suspend(draft) => {
                self.typing.replace(draft);
                let left = self.stop().await;
                Ok(left.map_or(Said::Line(String::new()), Said::Left))
            }
            Entered::End => Ok(Said::Left(Left::Asked)),
            Entered::Failed(error) => {
                Err(CliError::failed(format!("the terminal cannot be read: {error}")))
            }
        }
    }
}

/// What the first ctrl-c at the prompt says.
const LEAVES: &str = "ctrl-c again or /quit leaves";

/// Waits for keys, and meanwhile passes those on that are there already. Where lines come whole, the editor reads itself.
async fn keys(keyboard: &Keyboard, feed: Option<&mut Feed>) -> io::Result<Vec<u8>> {
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

fn stream(handle: &AgentHandle) -> Result<EventStream, CliError> {
    handle.stream().ok_or_else(|| CliError::failed("the agent's events are taken"))
}

pub(super) fn unwritable() -> CliError {
    CliError::failed("the output cannot be written")
}

/// Says why an agent ended that nobody asked to end.
pub(super) fn failure(end: &AgentEnd) -> CliError {
    match &end.result {
        Ok(()) => CliError::failed("the agent has ended"),
        Err(error) => CliError::failed(error),
    }
}
