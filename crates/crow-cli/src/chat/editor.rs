//! The prompt: a line editor with a history.

use std::{
    fs, io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use rustyline::{
    Cmd, ConditionalEventHandler, Config, Context, Editor, Event, EventContext, EventHandler,
    Helper, KeyCode, KeyEvent, Modifiers, RepeatCount,
    completion::Completer,
    config::Configurer as _,
    error::ReadlineError,
    highlight::Highlighter,
    hint::Hinter,
    history::FileHistory,
    validate::{ValidationContext, ValidationResult, Validator},
};

use tokio::sync::Notify;

use super::{modes::Modes, pastes::Pastes};

/// What stands before a prompt.
pub(super) const PROMPT: &str = "> ";
/// How many prompts are kept.
const KEPT: usize = 1000;

/// What came of the prompt.
#[derive(Debug)]
pub(super) enum EditorOutcome {
    Line(String),
    /// Ctrl-c.
    Interrupt,
    /// Ctrl-z, and what was typed.
    Suspend(String),
    /// Ctrl-d on an empty line, or the terminal is gone.
    End,
    Failed(String),
}

/// The line editor. Reading blocks, so it is moved to a thread and back.
pub(super) struct LineEditor {
    editor: Editor<Names, FileHistory>,
    history: Option<PathBuf>,
    modes: Modes,
    suspended: SuspendedInput,
    pastes: Pastes,
}

/// What was typed when ctrl-z came.
type SuspendedInput = Arc<Mutex<Option<String>>>;

impl LineEditor {
    /// Makes an editor that completes `names` and keeps its history in `history`, if it can.
    pub(super) fn new(
        names: Vec<String>,
        history: Option<PathBuf>,
        modes: Modes,
        goes_on: &Arc<Notify>,
        pastes: Pastes,
    ) -> Result<Self, String> {
        let config = Config::builder()
            .max_history_size(KEPT)
            .and_then(|builder| builder.history_ignore_dups(true))
            .map_err(|error| error.to_string())?
            .history_ignore_space(true)
            .build();
        let continues = if modes.is_live() { Continues::AsTyped } else { Continues::ByLine };
        let mut editor = Editor::with_config(config).map_err(|error| error.to_string())?;
        editor.set_helper(Some(Names { names, continues }));
        editor.set_auto_add_history(false);
        for key in [KeyEvent(KeyCode::Enter, Modifiers::NONE), KeyEvent::ctrl('J')] {
            let enter = Enter(Arc::clone(goes_on));
            editor.bind_sequence(key, EventHandler::Conditional(Box::new(enter)));
        }
        let end = EventHandler::Conditional(Box::new(EndOfInput(Arc::clone(goes_on))));
        editor.bind_sequence(KeyEvent::ctrl('D'), end);
        let suspended = SuspendedInput::default();
        let suspend = EventHandler::Conditional(Box::new(Suspend(Arc::clone(&suspended))));
        editor.bind_sequence(KeyEvent::ctrl('Z'), suspend);
        let newline = EventHandler::Simple(Cmd::Newline);
        editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), newline);
        if let Some(path) = &history {
            // What cannot be read is begun anew.
            drop(editor.load_history(path));
        }
        Ok(Self { editor, history, modes, suspended, pastes })
    }

    /// Reads a prompt that begins with `draft`. Blocks.
    pub(super) fn read(&mut self, draft: &str) -> EditorOutcome {
        self.modes.prompt();
        let read = self.editor.readline_with_initial(PROMPT, (draft, ""));
        // At once: what is typed from here on is not echoed.
        self.modes.work();
        let suspended = self.suspended.lock().unwrap_or_else(PoisonError::into_inner).take();
        match read {
            Err(ReadlineError::Interrupted) if let Some(line) = suspended => {
                EditorOutcome::Suspend(line)
            }
            Ok(line) => {
                let line = line.replace(CONTINUED, "\n");
                // A long paste would fill the screen whenever somebody looks for another prompt: it is not kept.
                EditorOutcome::Line(self.pastes.take_into(&line).unwrap_or_else(|| {
                    self.keep(&line);
                    line
                }))
            }
            Err(ReadlineError::Interrupted) => EditorOutcome::Interrupt,
            Err(ReadlineError::Signal(_)) => EditorOutcome::Line(String::new()),
            Err(ReadlineError::Eof) => EditorOutcome::End,
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                EditorOutcome::End
            }
            Err(error) => EditorOutcome::Failed(error.to_string()),
        }
    }

    /// Keeps a prompt in the history, for this user alone. A history that cannot be written is not worth a word.
    fn keep(&mut self, line: &str) {
        let Some(path) = &self.history else { return };
        if line.trim().is_empty() || !self.editor.add_history_entry(line).unwrap_or(false) {
            return;
        }
        if let Some(folder) = path.parent() {
            drop(fs::create_dir_all(folder));
        }
        drop(self.editor.append_history(path));
    }
}

/// What Enter puts behind a backslash: a mark that takes no room and that no paste has, and a new line. The editor has no
/// command that replaces a character and moves behind it.
const GOES_ON: &str = "\u{2060}\n";
/// The backslash and what stands behind it, which stand for the new line.
const CONTINUED: &str = "\\\u{2060}\n";

/// A backslash at the end of a line goes on with a further one.
struct Enter(Arc<Notify>);

impl ConditionalEventHandler for Enter {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, ctx: &EventContext<'_>) -> Option<Cmd> {
        let at_end = ctx.pos() == ctx.line().len() && ctx.line().ends_with('\\');
        at_end.then(|| {
            self.0.notify_one();
            Cmd::Insert(1, GOES_ON.to_owned())
        })
    }
}

/// Ctrl-d ends the reading only where nothing is typed.
struct EndOfInput(Arc<Notify>);

impl ConditionalEventHandler for EndOfInput {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, ctx: &EventContext<'_>) -> Option<Cmd> {
        if !ctx.line().is_empty() {
            self.0.notify_one();
        }
        None
    }
}

/// Ctrl-z ends the reading; the process is stopped by who owns its signals, with the terminal as it was.
struct Suspend(SuspendedInput);

impl ConditionalEventHandler for Suspend {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, ctx: &EventContext<'_>) -> Option<Cmd> {
        let line = ctx.line().to_owned();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
        Some(Cmd::Interrupt)
    }
}

/// Completes the names of commands.
struct Names {
    names: Vec<String>,
    continues: Continues,
}

/// How a line goes on after a backslash.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Continues {
    /// The key does it.
    AsTyped,
    /// There are no keys: the line is looked at when it is entered.
    ByLine,
}

impl Completer for Names {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..pos).unwrap_or(line);
        let matching = self.names.iter().filter(|name| name.starts_with(typed));
        let found = if typed.starts_with('/') { matching.cloned().collect() } else { Vec::new() };
        Ok((0, found))
    }
}

impl Hinter for Names {
    type Hint = String;
}

impl Highlighter for Names {}

impl Validator for Names {
    fn validate(&self, ctx: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let goes_on = self.continues == Continues::ByLine && ctx.input().ends_with('\\');
        Ok(if goes_on { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Helper for Names {}
