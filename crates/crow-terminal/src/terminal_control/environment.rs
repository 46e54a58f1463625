//! The terminal, as far as environment variables tell it.

use super::background::BackgroundTone;

/// Terminal programs that differ in the sequences that they understand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TerminalProgram {
    Kitty,
    WezTerm,
    Ghostty,
    ITerm,
    Foot,
    Warp,
    /// GNOME Terminal and others that are built on the library VTE.
    Vte,
    /// rxvt-unicode.
    Rxvt,
    /// Any other program, or one that could not be recognised.
    Other,
}

/// A program between this one and the terminal, which shows several terminals in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Multiplexer {
    None,
    Tmux,
    /// GNU screen.
    Screen,
    Zellij,
}

/// The number of colours that a terminal shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColourDepth {
    /// Colours of a palette of 16 or 256.
    Palette,
    /// Colours in 24 bits.
    TrueColour,
}

/// The origin of the name of the terminal program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgramSource {
    /// `TERM`, which is right over SSH too.
    Term,
    /// A variable of the terminal program, which other programs inherit: it may name a terminal further out.
    Variable,
}

/// The terminal, as far as environment variables tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalEnvironment {
    program: TerminalProgram,
    source: ProgramSource,
    multiplexer: Multiplexer,
    connection: ConnectionKind,
    colours: ColourDepth,
    background: Option<BackgroundTone>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionKind {
    Local,
    Ssh,
}

impl TerminalEnvironment {
    /// Reads the variables that describe the terminal. `variable` looks up one of them; `None` for those that are unset
    /// or empty.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let term = variable("TERM").unwrap_or_default();
        let is_set = |name: &str| variable(name).is_some();
        let (program, source) = match program_of_term(&term) {
            Some(program) => (program, ProgramSource::Term),
            None => (program_of_variables(&variable), ProgramSource::Variable),
        };
        let multiplexer = multiplexer(&term, is_set);
        let is_remote = is_set("SSH_CONNECTION") || is_set("SSH_TTY") || is_set("SSH_CLIENT");
        Self {
            program,
            source,
            multiplexer,
            connection: if is_remote { ConnectionKind::Ssh } else { ConnectionKind::Local },
            colours: colour_depth(&term, multiplexer, &variable),
            background: variable("COLORFGBG").as_deref().and_then(BackgroundTone::from_colorfgbg),
        }
    }

    /// Returns the terminal program.
    pub(crate) fn program(&self) -> TerminalProgram {
        self.program
    }

    /// Returns the multiplexer that this program runs in.
    pub(crate) fn multiplexer(&self) -> Multiplexer {
        self.multiplexer
    }

    /// Returns the number of colours; `Palette` if it is not known.
    pub(crate) fn colours(&self) -> ColourDepth {
        self.colours
    }

    /// Returns the background that `COLORFGBG` names.
    pub(crate) fn background(&self) -> Option<BackgroundTone> {
        self.background
    }

    /// Returns true if the program is known by its own `TERM`, or by a variable that cannot come from another terminal.
    pub(super) fn is_program_certain(&self) -> bool {
        match self.source {
            ProgramSource::Term => self.multiplexer == Multiplexer::None,
            ProgramSource::Variable => {
                self.multiplexer == Multiplexer::None && self.connection == ConnectionKind::Local
            }
        }
    }
}

fn program_of_term(term: &str) -> Option<TerminalProgram> {
    let starts = [
        ("xterm-kitty", TerminalProgram::Kitty),
        ("xterm-ghostty", TerminalProgram::Ghostty),
        ("ghostty", TerminalProgram::Ghostty),
        ("wezterm", TerminalProgram::WezTerm),
        ("foot", TerminalProgram::Foot),
        ("rxvt-unicode", TerminalProgram::Rxvt),
        ("linux", TerminalProgram::Other),
        ("alacritty", TerminalProgram::Other),
        ("dumb", TerminalProgram::Other),
    ];
    starts.iter().find(|(start, _)| term.starts_with(start)).map(|(_, program)| *program)
}

fn program_of_variables(variable: impl Fn(&str) -> Option<String>) -> TerminalProgram {
    // Most programs replace this variable, so it names the innermost one; tmux does so too.
    match variable("TERM_PROGRAM").as_deref() {
        Some("iTerm.app") => return TerminalProgram::ITerm,
        Some("WezTerm") => return TerminalProgram::WezTerm,
        Some("ghostty") => return TerminalProgram::Ghostty,
        Some("WarpTerminal") => return TerminalProgram::Warp,
        Some("kitty") => return TerminalProgram::Kitty,
        Some("tmux") | None => {}
        Some(_) => return TerminalProgram::Other,
    }
    let variables = [
        ("KITTY_WINDOW_ID", TerminalProgram::Kitty),
        ("WEZTERM_PANE", TerminalProgram::WezTerm),
        ("WEZTERM_EXECUTABLE", TerminalProgram::WezTerm),
        ("GHOSTTY_RESOURCES_DIR", TerminalProgram::Ghostty),
        ("VTE_VERSION", TerminalProgram::Vte),
    ];
    match variables.iter().find(|(name, _)| variable(name).is_some()) {
        Some((_, program)) => *program,
        // SSH forwards it to most hosts.
        None if variable("LC_TERMINAL").as_deref() == Some("iTerm2") => TerminalProgram::ITerm,
        None => TerminalProgram::Other,
    }
}

fn multiplexer(term: &str, is_set: impl Fn(&str) -> bool) -> Multiplexer {
    // Which one is the innermost is not known if several are nested. Zellij comes first, as it hands on the least.
    if is_set("ZELLIJ") {
        Multiplexer::Zellij
    } else if term.starts_with("tmux") || is_set("TMUX") {
        Multiplexer::Tmux
    } else if term.starts_with("screen") || is_set("STY") {
        // Over SSH, `screen` may also be tmux, which drops the sequences that are meant for screen.
        Multiplexer::Screen
    } else {
        Multiplexer::None
    }
}

fn colour_depth(
    term: &str,
    multiplexer: Multiplexer,
    variable: impl Fn(&str) -> Option<String>,
) -> ColourDepth {
    let says_so = variable("COLORTERM")
        .is_some_and(|value| value.contains("truecolor") || value.contains("24bit"));
    let is_known = ["xterm-kitty", "xterm-ghostty", "ghostty", "wezterm", "foot", "alacritty"]
        .iter()
        .any(|start| term.starts_with(start));
    match multiplexer {
        // It takes the numbers of such colours for other attributes, and inherits the variable.
        Multiplexer::Screen => ColourDepth::Palette,
        _ if says_so || is_known || term.ends_with("-direct") => ColourDepth::TrueColour,
        Multiplexer::None | Multiplexer::Tmux | Multiplexer::Zellij => ColourDepth::Palette,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::environment, *};

    #[test]
    fn the_program_is_recognised() {
        let table = [
            ("", TerminalProgram::Other),
            ("TERM=xterm-256color", TerminalProgram::Other),
            ("TERM=xterm-kitty", TerminalProgram::Kitty),
            ("TERM=xterm-256color KITTY_WINDOW_ID=3", TerminalProgram::Kitty),
            ("TERM=xterm-ghostty TERM_PROGRAM=ghostty", TerminalProgram::Ghostty),
            ("TERM=xterm-256color TERM_PROGRAM=WezTerm WEZTERM_PANE=0", TerminalProgram::WezTerm),
            ("TERM=xterm-256color TERM_PROGRAM=iTerm.app", TerminalProgram::ITerm),
            ("TERM=xterm-256color LC_TERMINAL=iTerm2 SSH_TTY=/dev/pts/1", TerminalProgram::ITerm),
            ("TERM=xterm-256color TERM_PROGRAM=WarpTerminal", TerminalProgram::Warp),
            ("TERM=xterm-256color VTE_VERSION=7600", TerminalProgram::Vte),
            ("TERM=rxvt-unicode-256color", TerminalProgram::Rxvt),
            ("TERM=foot-extra", TerminalProgram::Foot),
            // A terminal that was started from another one.
            ("TERM=xterm-256color TERM_PROGRAM=vscode KITTY_WINDOW_ID=3", TerminalProgram::Other),
            ("TERM=xterm-kitty TERM_PROGRAM=vscode", TerminalProgram::Kitty),
            ("TERM=alacritty VTE_VERSION=7600", TerminalProgram::Other),
            (
                "TERM=tmux-256color TERM_PROGRAM=tmux TMUX=/t,1,0 WEZTERM_PANE=1",
                TerminalProgram::WezTerm,
            ),
        ];
        for (variables, program) in table {
            assert_eq!(environment(variables).program(), program, "{variables}");
        }
    }

    #[test]
    fn the_multiplexer_is_recognised() {
        let table = [
            ("TERM=xterm-256color", Multiplexer::None),
            ("TERM=tmux-256color", Multiplexer::Tmux),
            ("TERM=screen-256color TMUX=/t,1,0", Multiplexer::Tmux),
            ("TERM=xterm-256color TMUX=/t,1,0", Multiplexer::Tmux),
            ("TERM=screen STY=1.pts", Multiplexer::Screen),
            ("TERM=screen.xterm-256color", Multiplexer::Screen),
            ("TERM=xterm-256color ZELLIJ=0", Multiplexer::Zellij),
        ];
        for (variables, multiplexer) in table {
            assert_eq!(environment(variables).multiplexer(), multiplexer, "{variables}");
        }
    }

    #[test]
    fn colours_in_24_bits_are_used_only_where_they_are_known() {
        let table = [
            ("TERM=xterm-256color", ColourDepth::Palette),
            ("TERM=xterm-256color COLORTERM=truecolor", ColourDepth::TrueColour),
            ("TERM=xterm-256color COLORTERM=24bit", ColourDepth::TrueColour),
            ("TERM=xterm-kitty SSH_TTY=/dev/pts/1", ColourDepth::TrueColour),
            ("TERM=xterm-direct", ColourDepth::TrueColour),
            ("TERM=tmux-256color TMUX=x COLORTERM=truecolor", ColourDepth::TrueColour),
            ("TERM=screen STY=1 COLORTERM=truecolor", ColourDepth::Palette),
            ("TERM=linux", ColourDepth::Palette),
        ];
        for (variables, colours) in table {
            assert_eq!(environment(variables).colours(), colours, "{variables}");
        }
    }
}
