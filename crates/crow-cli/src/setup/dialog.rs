//! Texts and questions of the setup, wrapped to the terminal.

use std::io::{self, Write as _};

use crow_console::{ConsoleStyle, Paint, wrap::wrap_hanging};
use crow_text::one_line;

use crate::{
    error::CliError,
    terminal::{TypedInput, ask_hidden, ask_line, is_yes},
};

/// Mark before an answer.
const MARK: &str = "? ";
/// Mark before a key.
const KEY_MARK: &str = "key: ";
/// Answers that leave the setup.
const LEAVE: [&str; 2] = ["q", "quit"];

/// What a step of the setup came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StepResult<T> {
    Answer(T),
    /// Another source of models is to be chosen.
    Back,
    /// The user leaves.
    Leave,
}

/// The terminal of the setup.
#[derive(Debug, Clone, Copy)]
pub(super) struct SetupDialog {
    style: ConsoleStyle,
}

impl SetupDialog {
    pub(super) fn new(style: ConsoleStyle) -> Self {
        // One column stays free, so that no terminal wraps a full line.
        let width = style.width.saturating_sub(1).max(2);
        Self { style: ConsoleStyle { width, colour: false, ..style } }
    }

    /// Shows a text.
    pub(super) fn say(&self, text: &str) -> Result<(), CliError> {
        self.write(("", ""), text)
    }

    /// Shows an entry of a numbered list.
    pub(super) fn entry(&self, number: usize, text: &str) -> Result<(), CliError> {
        self.write((&format!("{number:>3}  "), "     "), text)
    }

    /// Asks a question that is answered by yes or no; enter means no. Returns `None` if the user leaves. Blocks.
    pub(super) fn confirm(&self, question: &str) -> Result<Option<bool>, CliError> {
        loop {
            self.say(&format!("{question} y or n; enter means n"))?;
            let Some(answer) = ask_answer()? else { return Ok(None) };
            match answer.to_ascii_lowercase().as_str() {
                "" | "n" | "no" => return Ok(Some(false)),
                answer if is_yes(answer) => return Ok(Some(true)),
                _ => self.say("This is neither y nor n.")?,
            }
        }
    }

    fn write(&self, indent: (&str, &str), text: &str) -> Result<(), CliError> {
        let text = wrap_hanging(&self.style, Paint::Plain, indent, &one_line(text));
        let mut err = io::stderr().lock();
        err.write_all(text.as_bytes()).and_then(|()| err.flush()).map_err(|error| unusable(&error))
    }
}

/// Asks for a line. Returns `None` if the user leaves. Blocks.
pub(super) fn ask_answer() -> Result<Option<String>, CliError> {
    let typed = ask_line(MARK).map_err(|error| unusable(&error))?;
    Ok(line(typed).filter(|line| !LEAVE.contains(&line.to_ascii_lowercase().as_str())))
}

/// Asks for a key, which is not shown. Returns `None` if the user leaves. Blocks.
pub(super) fn ask_key() -> Result<Option<String>, CliError> {
    let typed = ask_hidden(KEY_MARK).map_err(|error| unusable(&error))?;
    Ok(line(typed).filter(|line| !LEAVE.contains(&line.as_str())))
}

fn line(typed: TypedInput) -> Option<String> {
    match typed {
        TypedInput::Line(line) => Some(line.trim().to_owned()),
        TypedInput::Nothing => None,
    }
}

fn unusable(error: &io::Error) -> CliError {
    CliError::failed(format!("the terminal cannot be used: {error}"))
}
