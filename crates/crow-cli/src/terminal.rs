//! Writing to the terminal: output, messages of the program, and the style of both.

use std::io::{self, Write as _};

use crow_app::{AppError, ProcessEnvironment, UserDialog};
use crow_console::{
    ConsoleStyle, ExitCode, PermissionsHint, ProgramHints, TerminalFacts, terminal_width,
};
use crow_text::neutralise;

use crate::{confirm::confirm, error::CliError};

/// Writes to stdout. A closed pipe is no error: the reader has enough.
pub(crate) fn write_out(bytes: &[u8]) -> Result<ExitCode, CliError> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(ExitCode::Done),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::Done),
        Err(error) => Err(CliError::failed(format!("the output cannot be written: {error}"))),
    }
}

/// Options and commands of this program that advice names.
pub(crate) const PROGRAM_HINTS: ProgramHints = ProgramHints {
    permissions: Some(PermissionsHint {
        option: "--permissions",
        advice: "--permissions accept-edits permits edits in the workspace, full-auto what the sandbox allows; a rule other paths",
    }),
    explain_permissions: Some("crow-agent permissions explain"),
    list_models: Some("crow-agent models"),
    model: Some("--model"),
    max_steps: Some("--max-steps"),
    max_rounds: Some("--max-rounds"),
    resume: Some("--resume"),
};

/// Prints a message of the program itself to stderr.
#[expect(clippy::print_stderr, reason = "the binary speaks to people")]
pub(crate) fn print_message(text: &str) {
    eprintln!("crow-agent: {}", neutralise(text));
}

/// Chooses the style from the terminals, `TERM`, `NO_COLOR` and the locale of the process.
pub fn console_style(environment: &ProcessEnvironment) -> ConsoleStyle {
    let style = ConsoleStyle::new(&TerminalFacts {
        stdout_terminal: environment.stdout_is_terminal,
        stderr_terminal: environment.stderr_is_terminal,
        width: terminal_width(io::stderr()),
        ..TerminalFacts::from_variables(|name| environment.var(name))
    });
    ConsoleStyle { hints: PROGRAM_HINTS, ..style }
}

/// The person at the terminal of the program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TerminalDialog;

impl UserDialog for TerminalDialog {
    fn show_message(&self, text: &str) {
        print_message(text);
    }

    fn confirm(&self, question: &str) -> Result<bool, AppError> {
        confirm(question)
    }
}
