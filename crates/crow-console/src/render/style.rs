//! Style of the output: width, characters, colours, and which parts are shown.

use std::{
    io::{self, IsTerminal as _},
    os::fd::AsFd,
};

use crate::report::ProgramHints;

/// Visibility of a part of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// The part is shown.
    Show,
    /// The part is left out.
    Hide,
}

/// Character set of Crow's own marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glyphs {
    /// Unicode, such as `✓`.
    Unicode,
    /// ASCII, such as `ok`, for locales other than UTF-8.
    Ascii,
}

impl Glyphs {
    /// Returns the form of a mark in this character set.
    pub fn pick(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        match self {
            Self::Unicode => unicode,
            Self::Ascii => ascii,
        }
    }
}

/// Destination of the text of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerDestination {
    /// Stdout is a terminal: all text is written to it as it streams.
    Streamed,
    /// Stdout is a pipe or a file: only the text of the run's last reply is written to it, at the end. Text of earlier
    /// replies goes to stderr.
    AtEnd,
    /// The caller shows the text of the root session's agent itself.
    Separate,
}

/// Style of the output. The caller chooses it, since only the caller knows the terminal and the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsoleStyle {
    /// True if stderr is in colour.
    pub colour: bool,
    /// True if stderr is a terminal whose last line can be rewritten.
    pub live: bool,
    /// Width in columns.
    pub width: usize,
    /// Character set of marks.
    pub glyphs: Glyphs,
    /// Destination of the text of the agent.
    pub answer: AnswerDestination,
    /// Visibility of the model's reasoning.
    pub thinking: Visibility,
    /// Visibility of the user's prompts: shown in a transcript, hidden where the user has just typed them.
    pub prompts: Visibility,
    /// Visibility of questions: shown if stderr is a terminal, where a person may answer them.
    pub questions: Visibility,
    /// Maximum number of lines of the diff of one call.
    pub diff_lines: usize,
    /// Options and commands of the program that advice may name.
    pub hints: ProgramHints,
}

/// Facts about the terminal and the environment from which [`ConsoleStyle::new`] chooses a style.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact that is independent of the others"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalFacts {
    /// True if stdout is a terminal.
    pub stdout_terminal: bool,
    /// True if stderr is a terminal.
    pub stderr_terminal: bool,
    /// True if the terminal understands escape sequences: `TERM` is set and not `dumb`.
    pub capable: bool,
    /// True if `NO_COLOR` is set and not empty.
    pub no_colour: bool,
    /// True if the locale is UTF-8.
    pub utf8: bool,
    /// Width of the terminal in columns, if there is one.
    pub width: Option<usize>,
}

/// Width in columns without a terminal.
const FILE_WIDTH: usize = 100;
/// Minimum width in columns; less would not be readable.
pub(super) const LEAST_WIDTH: usize = 20;

impl TerminalFacts {
    /// Reads `TERM`, `NO_COLOR` and the locale with `variable`. Assumes no terminals.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(&variable);
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        Self {
            stdout_terminal: false,
            stderr_terminal: false,
            capable: variable("TERM").is_some_and(|term| term != "dumb"),
            no_colour: variable("NO_COLOR").is_some(),
            utf8: locale.contains("utf-8") || locale.contains("utf8"),
            width: None,
        }
    }
}

impl ConsoleStyle {
    /// Chooses the style for the standard streams of the process. `variable` looks up variables of its environment;
    /// `None` for those that are unset or empty.
    pub fn of_process(variable: impl Fn(&str) -> Option<String>) -> Self {
        Self::new(&TerminalFacts {
            stdout_terminal: io::stdout().is_terminal(),
            stderr_terminal: io::stderr().is_terminal(),
            width: terminal_width(io::stderr()),
            ..TerminalFacts::from_variables(variable)
        })
    }

    /// Chooses the style for these surroundings.
    pub fn new(surroundings: &TerminalFacts) -> Self {
        let live = surroundings.stderr_terminal && surroundings.capable;
        let answer = if surroundings.stdout_terminal {
            AnswerDestination::Streamed
        } else {
            AnswerDestination::AtEnd
        };
        Self {
            colour: live && !surroundings.no_colour,
            live,
            width: surroundings.width.unwrap_or(FILE_WIDTH).max(LEAST_WIDTH),
            glyphs: if surroundings.utf8 { Glyphs::Unicode } else { Glyphs::Ascii },
            answer,
            thinking: Visibility::Show,
            prompts: Visibility::Hide,
            questions: if surroundings.stderr_terminal {
                Visibility::Show
            } else {
                Visibility::Hide
            },
            diff_lines: 40,
            hints: ProgramHints::default(),
        }
    }

    /// Returns the style for a file of `width` columns: no colours, no status line.
    pub fn plain(width: usize) -> Self {
        Self::new(&TerminalFacts {
            stdout_terminal: false,
            stderr_terminal: false,
            capable: false,
            no_colour: false,
            utf8: true,
            width: Some(width),
        })
    }
}

/// Look of a piece of text. Besides the status line of the screen, only this type writes escape sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    Plain,
    Dim,
    Bold,
    Red,
    Green,
    Yellow,
    Cyan,
    /// Changed word in a deleted line.
    RedWord,
    /// Changed word in an added line.
    GreenWord,
}

impl Paint {
    fn sgr(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Dim => "\u{1b}[2m",
            Self::Bold => "\u{1b}[1m",
            Self::Red => "\u{1b}[31m",
            Self::Green => "\u{1b}[32m",
            Self::Yellow => "\u{1b}[33m",
            Self::Cyan => "\u{1b}[36m",
            Self::RedWord => "\u{1b}[7;31m",
            Self::GreenWord => "\u{1b}[7;32m",
        }
    }

    /// Returns the escape sequence before the text; empty without colours.
    pub fn open(self, style: &ConsoleStyle) -> &'static str {
        if style.colour { self.sgr() } else { "" }
    }

    /// Returns the escape sequence after the text; empty without colours and for [`Plain`](Self::Plain).
    pub fn close(self, style: &ConsoleStyle) -> &'static str {
        if style.colour && self != Self::Plain { "\u{1b}[0m" } else { "" }
    }

    /// Appends `text` in this look.
    pub fn write(self, style: &ConsoleStyle, text: &str, out: &mut String) {
        if !text.is_empty() {
            out.push_str(self.open(style));
            out.push_str(text);
            out.push_str(self.close(style));
        }
    }
}

/// Returns the width in columns of the terminal behind `file`; `None` if it is not a terminal or its width is unknown.
pub fn terminal_width(file: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(file).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMINAL: TerminalFacts = TerminalFacts {
        stdout_terminal: true,
        stderr_terminal: true,
        capable: true,
        no_colour: false,
        utf8: true,
        width: Some(80),
    };

    #[test]
    fn colour_status_line_and_answer_depend_on_the_surroundings() {
        let table = [
            ("terminal", TERMINAL, (true, true, AnswerDestination::Streamed)),
            (
                "NO_COLOR",
                TerminalFacts { no_colour: true, ..TERMINAL },
                (false, true, AnswerDestination::Streamed),
            ),
            (
                "dumb",
                TerminalFacts { capable: false, ..TERMINAL },
                (false, false, AnswerDestination::Streamed),
            ),
            (
                "stdout piped",
                TerminalFacts { stdout_terminal: false, ..TERMINAL },
                (true, true, AnswerDestination::AtEnd),
            ),
            (
                "stderr piped",
                TerminalFacts { stderr_terminal: false, ..TERMINAL },
                (false, false, AnswerDestination::Streamed),
            ),
        ];
        for (name, surroundings, expected) in table {
            let style = ConsoleStyle::new(&surroundings);
            assert_eq!((style.colour, style.live, style.answer), expected, "{name}");
        }
    }

    #[test]
    fn the_width_has_a_minimum_and_a_default() {
        assert_eq!(ConsoleStyle::new(&TerminalFacts { width: Some(3), ..TERMINAL }).width, 20);
        assert_eq!(ConsoleStyle::new(&TerminalFacts { width: None, ..TERMINAL }).width, 100);
    }

    #[test]
    fn a_file_has_no_width() {
        let (reader, _writer) = std::io::pipe().unwrap();
        assert_eq!(terminal_width(reader), None);
    }
}
