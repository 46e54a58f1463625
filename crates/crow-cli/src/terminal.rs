//! The terminal outside a run: output, messages, questions and hidden input.

use std::{
    io::{self, Write as _},
    os::fd::AsFd as _,
};

use crow_app::{AppError, ProcessEnvironment, UserDialog};
use crow_console::{
    ConsoleStyle, ExitCode, PermissionsHint, ProgramHints, TerminalFacts, terminal_width,
};
use crow_text::{neutralise, one_line};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
    tcsetattr,
};

use crate::error::CliError;

/// Writes to stdout. A closed pipe is no error: the reader has enough.
pub(crate) fn write_out(bytes: &[u8]) -> Result<ExitCode, CliError> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(ExitCode::Done),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::Done),
        Err(error) => Err(CliError::failed(format!("the output cannot be written: {error}"))),
    }
}

/// Writes a text to stdout as one line.
pub(crate) fn write_line(text: &str) -> Result<ExitCode, CliError> {
    write_out(format!("{}\n", one_line(text)).as_bytes())
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

/// Asks a yes-or-no question on stderr. Any answer but a yes, and end of input, is a no. Blocks.
pub(crate) fn confirm(question: &str) -> Result<bool, AppError> {
    // Discards input typed before the question. Fails without a terminal, which does not matter.
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    let mut err = io::stderr().lock();
    err.write_all(question.as_bytes())
        .and_then(|()| err.write_all(b" [y/N] "))
        .and_then(|()| err.flush())
        .map_err(|error| AppError::failed(format!("the question cannot be shown: {error}")))?;
    let mut line = String::new();
    io::stdin()
        .read_line(&mut line)
        .map_err(|error| AppError::failed(format!("the terminal cannot be read: {error}")))?;
    if !line.ends_with('\n') {
        drop(err.write_all(b"\n"));
    }
    Ok(is_yes(&line))
}

/// Returns true for `y` and `yes`, ignoring case and blanks around it.
pub(crate) fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// Maximum length of a line, in bytes; further bytes are dropped.
const LONGEST_LINE: usize = 64 * 1024;

/// What was typed at a prompt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TypedInput {
    Line(String),
    /// Ctrl-C, or end of input.
    Nothing,
}

/// The byte of ctrl-c.
const CTRL_C: u8 = 0x03;

/// Prompts for a line, which the terminal shows and edits, and reads it. Ctrl-c ends no program, but the prompt. The
/// terminal's settings are restored. Blocks.
pub(crate) fn ask_line(prompt: &str) -> io::Result<TypedInput> {
    let terminal = io::stdin();
    let original = tcgetattr(terminal.as_fd())?;
    let mut lines = original.clone();
    lines.local_modes -= LocalModes::ISIG;
    lines.local_modes |= LocalModes::ICANON | LocalModes::ECHO;
    // As an end of line ctrl-c needs no enter.
    lines.special_codes[SpecialCodeIndex::VEOL] = CTRL_C;
    let _restore = EchoGuard(original);
    tcsetattr(terminal.as_fd(), OptionalActions::Flush, &lines)?;
    let mut err = io::stderr().lock();
    err.write_all(prompt.as_bytes())?;
    err.flush()?;
    let mut typed = Vec::new();
    loop {
        let mut bytes = [0; 1024];
        let length = match rustix::io::read(terminal.as_fd(), &mut bytes) {
            Ok(length) => length,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let read = &bytes[..length];
        if read.is_empty() || read.contains(&CTRL_C) {
            err.write_all(b"\n")?;
            return Ok(TypedInput::Nothing);
        }
        let room = LONGEST_LINE.saturating_sub(typed.len());
        typed.extend(read.iter().filter(|byte| **byte != b'\n').take(room));
        // Ctrl-d in a line passes on what was typed so far: the line goes on.
        if read.contains(&b'\n') {
            return Ok(TypedInput::Line(String::from_utf8_lossy(&typed).into_owned()));
        }
    }
}

/// Prompts for a line and reads it without echo. The terminal's settings are restored. Blocks.
pub(crate) fn ask_hidden(prompt: &str) -> io::Result<TypedInput> {
    ask(prompt, |_| "")
}

/// Asks a yes-or-no question without echo, then prints `y` or `n` as the answer was understood: a key pasted a second
/// time is not shown. Blocks.
pub(crate) fn confirm_hidden(question: &str) -> io::Result<TypedInput> {
    ask(&format!("{question} [y/N] "), |typed| match typed {
        TypedInput::Line(line) if is_yes(line) => "y",
        TypedInput::Line(_) => "n",
        TypedInput::Nothing => "",
    })
}

fn ask(prompt: &str, shown: impl Fn(&TypedInput) -> &'static str) -> io::Result<TypedInput> {
    let terminal = io::stdin();
    let original = tcgetattr(terminal.as_fd())?;
    let mut hidden = original.clone();
    // Without ISIG Ctrl-C arrives as a byte, so that no signal ends the program while echo is off.
    hidden.local_modes -=
        LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
    hidden.special_codes[SpecialCodeIndex::VMIN] = 1;
    hidden.special_codes[SpecialCodeIndex::VTIME] = 0;
    let _restore = EchoGuard(original);
    tcsetattr(terminal.as_fd(), OptionalActions::Flush, &hidden)?;
    let mut err = io::stderr().lock();
    err.write_all(prompt.as_bytes())?;
    err.flush()?;
    let mut line = HiddenLine::default();
    let typed = loop {
        let mut bytes = [0; 1024];
        let length = match rustix::io::read(terminal.as_fd(), &mut bytes) {
            Ok(length) => length,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let read = &bytes[..length];
        if read.is_empty() {
            break TypedInput::Nothing;
        }
        if let Some(typed) = read.iter().find_map(|byte| line.push(*byte)) {
            break typed;
        }
    };
    writeln!(err, "{}", shown(&typed))?;
    Ok(typed)
}

/// Restores the terminal's settings. Discards unread input, such as what was pasted after the line: a shell would run
/// it.
struct EchoGuard(Termios);

impl Drop for EchoGuard {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin().as_fd(), OptionalActions::Flush, &self.0);
    }
}

/// A line being typed, with the editing keys of a terminal.
#[derive(Debug, Default)]
struct HiddenLine(Vec<u8>);

impl HiddenLine {
    /// Takes one byte. Returns the input once the line is ended or given up.
    fn push(&mut self, byte: u8) -> Option<TypedInput> {
        match byte {
            b'\r' | b'\n' => {
                let bytes = std::mem::take(&mut self.0);
                return Some(TypedInput::Line(String::from_utf8_lossy(&bytes).into_owned()));
            }
            // Ctrl-C, and Ctrl-D on an empty line.
            CTRL_C => return Some(TypedInput::Nothing),
            0x04 if self.0.is_empty() => return Some(TypedInput::Nothing),
            // Backspace or delete; Ctrl-U.
            0x08 | 0x7f => drop(self.0.pop()),
            0x15 => self.0.clear(),
            _ if self.0.len() < LONGEST_LINE => self.0.push(byte),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_y_and_yes_confirm() {
        for (line, expected) in [
            ("y\n", true),
            ("YES\n", true),
            ("", false),
            ("\n", false),
            ("n\n", false),
            ("yep\n", false),
        ] {
            assert_eq!(is_yes(line), expected, "{line:?}");
        }
    }

    #[test]
    fn a_line_can_be_typed_edited_or_cancelled() {
        let line = |text: &str| Some(TypedInput::Line(text.to_owned()));
        for (keys, expected) in [
            ("sk-1\r", line("sk-1")),
            ("sk-2\n", line("sk-2")),
            ("sx\u{7f}k\r", line("sk")),
            ("wrong\u{15}sk\r", line("sk")),
            ("sk\u{3}", Some(TypedInput::Nothing)),
            ("\u{4}", Some(TypedInput::Nothing)),
            ("s\u{4}\r", line("s\u{4}")),
            ("sk", None),
        ] {
            let mut typed = HiddenLine::default();
            assert_eq!(keys.bytes().find_map(|byte| typed.push(byte)), expected, "{keys:?}");
        }
    }
}
