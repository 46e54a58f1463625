//! The prompt: a line editor with history, completion of commands and continuation lines.

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

use super::{feed::Pastes, modes::Modes};

/// Text before the input at the prompt.
pub(super) const PROMPT: &str = "> ";
/// Maximum number of prompts in the history.
const HISTORY_SIZE: usize = 1000;

/// Result of reading a prompt.
#[derive(Debug)]
pub(super) enum EditorOutcome {
    Line(String),
    /// Ctrl-c.
    Interrupt,
    /// Ctrl-z, with the text typed so far.
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

/// Text on the line when ctrl-z was pressed.
type SuspendedInput = Arc<Mutex<Option<String>>>;

impl LineEditor {
    /// Creates an editor that completes `names` and stores its history in `history`, if given. `still_reading` is
    /// notified when a key that could end the reading did not.
    pub(super) fn new(
        names: Vec<String>,
        history: Option<PathBuf>,
        modes: Modes,
        still_reading: &Arc<Notify>,
        pastes: Pastes,
    ) -> Result<Self, String> {
        let config = Config::builder()
            .max_history_size(HISTORY_SIZE)
            .and_then(|builder| builder.history_ignore_dups(true))
            .map_err(|error| error.to_string())?
            .history_ignore_space(true)
            .build();
        let continues = if modes.is_live() { Continues::AsTyped } else { Continues::ByLine };
        let mut editor = Editor::with_config(config).map_err(|error| error.to_string())?;
        editor.set_helper(Some(Names { names, continues }));
        editor.set_auto_add_history(false);
        for key in [KeyEvent(KeyCode::Enter, Modifiers::NONE), KeyEvent::ctrl('J')] {
            let enter = Enter(Arc::clone(still_reading));
            editor.bind_sequence(key, EventHandler::Conditional(Box::new(enter)));
        }
        let end = EventHandler::Conditional(Box::new(EndOfInput(Arc::clone(still_reading))));
        editor.bind_sequence(KeyEvent::ctrl('D'), end);
        let suspended = SuspendedInput::default();
        let suspend = EventHandler::Conditional(Box::new(Suspend(Arc::clone(&suspended))));
        editor.bind_sequence(KeyEvent::ctrl('Z'), suspend);
        let newline = EventHandler::Simple(Cmd::Newline);
        editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), newline);
        if let Some(path) = &history {
            // A history that cannot be read starts empty.
            drop(editor.load_history(path));
        }
        Ok(Self { editor, history, modes, suspended, pastes })
    }

    /// Reads a prompt that begins with `draft`. Blocks.
    pub(super) fn read(&mut self, draft: &str) -> EditorOutcome {
        self.modes.prompt();
        let read = self.editor.readline_with_initial(PROMPT, (draft, ""));
        // Switched immediately: keys typed from here on must not be echoed.
        self.modes.work();
        let suspended = self.suspended.lock().unwrap_or_else(PoisonError::into_inner).take();
        match read {
            Err(ReadlineError::Interrupted) if let Some(line) = suspended => {
                EditorOutcome::Suspend(line)
            }
            Ok(line) => {
                let line = line.replace(CONTINUATION, "\n");
                // A prompt with a long paste is not stored: it would fill the screen when the user pages through the
                // history.
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

    /// Adds a prompt to the history file, which only this user can read. Errors are ignored.
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

/// Text that Enter inserts after a trailing backslash: a word joiner, which has no width and occurs in no paste, and
/// a newline. The editor has no command that replaces a character and moves behind it.
const CONTINUATION_INSERT: &str = "\u{2060}\n";
/// Backslash and inserted text, which are replaced by a newline in the result.
const CONTINUATION: &str = "\\\u{2060}\n";

/// Enter after a trailing backslash starts a further line.
struct Enter(Arc<Notify>);

impl ConditionalEventHandler for Enter {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, ctx: &EventContext<'_>) -> Option<Cmd> {
        let at_end = ctx.pos() == ctx.line().len() && ctx.line().ends_with('\\');
        at_end.then(|| {
            self.0.notify_one();
            Cmd::Insert(1, CONTINUATION_INSERT.to_owned())
        })
    }
}

/// Ctrl-d ends the reading only on an empty line.
struct EndOfInput(Arc<Notify>);

impl ConditionalEventHandler for EndOfInput {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, ctx: &EventContext<'_>) -> Option<Cmd> {
        if !ctx.line().is_empty() {
            self.0.notify_one();
        }
        None
    }
}

/// Ctrl-z ends the reading. The owner of the signals then stops the process, with the terminal restored.
struct Suspend(SuspendedInput);

impl ConditionalEventHandler for Suspend {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, ctx: &EventContext<'_>) -> Option<Cmd> {
        let line = ctx.line().to_owned();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
        Some(Cmd::Interrupt)
    }
}

/// Completes names of commands; ends lines, or continues them after a backslash.
struct Names {
    names: Vec<String>,
    continues: Continues,
}

/// Method of continuing a line after a backslash.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Continues {
    /// The Enter key inserts the continuation.
    AsTyped,
    /// Lines are delivered whole: the validator looks for the backslash.
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
        let candidates =
            if typed.starts_with('/') { matching.cloned().collect() } else { Vec::new() };
        Ok((0, candidates))
    }
}

impl Hinter for Names {
    type Hint = String;
}

impl Highlighter for Names {}

impl Validator for Names {
    fn validate(&self, ctx: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let is_continued = self.continues == Continues::ByLine && ctx.input().ends_with('\\');
        Ok(if is_continued { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Helper for Names {}
