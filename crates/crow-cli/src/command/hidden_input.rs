//! Input of a line from the terminal without echo.

use std::{
    io::{self, Write as _},
    os::fd::AsFd as _,
};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

use crate::confirm::is_yes;

/// Maximum length of a line, in bytes; further bytes are dropped.
const LONGEST: usize = 64 * 1024;

/// Outcome of a prompt without echo.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HiddenInput {
    Line(String),
    /// Ctrl-C, or end of input.
    Nothing,
}

/// Prompts for a line and reads it without echo. The terminal's settings are restored. Blocks.
pub(super) fn ask_hidden(prompt: &str) -> io::Result<HiddenInput> {
    ask(prompt, |_| "")
}

/// Asks a yes-or-no question without echo, then prints `y` or `n` as the answer was understood: a key pasted a second
/// time is not shown. Blocks.
pub(super) fn confirm_hidden(question: &str) -> io::Result<HiddenInput> {
    ask(&format!("{question} [y/N] "), |typed| match typed {
        HiddenInput::Line(line) if is_yes(line) => "y",
        HiddenInput::Line(_) => "n",
        HiddenInput::Nothing => "",
    })
}

fn ask(prompt: &str, shown: impl Fn(&HiddenInput) -> &'static str) -> io::Result<HiddenInput> {
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
            break HiddenInput::Nothing;
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
    fn push(&mut self, byte: u8) -> Option<HiddenInput> {
        match byte {
            b'\r' | b'\n' => {
                let bytes = std::mem::take(&mut self.0);
                return Some(HiddenInput::Line(String::from_utf8_lossy(&bytes).into_owned()));
            }
            // Ctrl-C, and Ctrl-D on an empty line.
            0x03 => return Some(HiddenInput::Nothing),
            0x04 if self.0.is_empty() => return Some(HiddenInput::Nothing),
            // Backspace or delete; Ctrl-U.
            0x08 | 0x7f => drop(self.0.pop()),
            0x15 => self.0.clear(),
            _ if self.0.len() < LONGEST => self.0.push(byte),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_can_be_typed_edited_or_cancelled() {
        let line = |text: &str| Some(HiddenInput::Line(text.to_owned()));
        for (keys, expected) in [
            ("sk-1\r", line("sk-1")),
            ("sk-2\n", line("sk-2")),
            ("sx\u{7f}k\r", line("sk")),
            ("wrong\u{15}sk\r", line("sk")),
            ("sk\u{3}", Some(HiddenInput::Nothing)),
            ("\u{4}", Some(HiddenInput::Nothing)),
            ("s\u{4}\r", line("s\u{4}")),
            ("sk", None),
        ] {
            let mut typed = HiddenLine::default();
            assert_eq!(keys.bytes().find_map(|byte| typed.push(byte)), expected, "{keys:?}");
        }
    }
}
