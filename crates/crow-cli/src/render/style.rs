//! How the screen looks.

/// Whether something is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// It is shown.
    Show,
    /// It is left out.
    Hide,
}

/// Which characters Crow's own marks are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glyphs {
    /// Any, such as `✓`.
    Unicode,
    /// ASCII only, such as `ok`, where the locale is not UTF-8.
    Ascii,
}

impl Glyphs {
    /// Chooses between the two forms of a mark.
    pub(super) fn pick(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        match self {
            Self::Unicode => unicode,
            Self::Ascii => ascii,
        }
    }
}

/// Where the text of the agent goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerPlace {
    /// To stdout as it comes, all of it: stdout is a terminal.
    Streamed,
    /// To stdout at the end, and only the text of the run's last reply: stdout is a pipe or a file. Text of earlier
    /// replies goes to stderr.
    AtEnd,
}

/// How the screen looks. The caller decides, for only the caller knows the terminal and the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsoleStyle {
    /// Colours on stderr.
    pub colour: bool,
    /// Stderr is a terminal whose last line may be written anew.
    pub live: bool,
    /// Columns.
    pub width: usize,
    /// Which characters marks are made of.
    pub glyphs: Glyphs,
    /// Where the text of the agent goes.
    pub answer: AnswerPlace,
    /// The model's reasoning.
    pub thinking: Visibility,
    /// The user's own words, which the user of a transcript has not just typed.
    pub prompts: Visibility,
    /// Questions about calls: somebody may be there to answer them.
    pub questions: Visibility,
    /// The most lines of one call's diff.
    pub diff_lines: usize,
}

/// What the caller knows of the terminal and the environment.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact that is independent of the others"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputSurroundings {
    /// Stdout is a terminal.
    pub stdout_terminal: bool,
    /// Stderr is a terminal.
    pub stderr_terminal: bool,
    /// `TERM` names a terminal that understands escape sequences: it is set and not `dumb`.
    pub capable: bool,
    /// `NO_COLOR` is set and not empty.
    pub no_colour: bool,
    /// The locale is UTF-8.
    pub utf8: bool,
    /// Columns of the terminal, if there is one.
    pub width: Option<usize>,
}

/// Columns where there is no terminal.
const FILE_WIDTH: usize = 100;
/// Columns below which nothing would be readable.
pub(super) const LEAST_WIDTH: usize = 20;

impl ConsoleStyle {
    /// Decides how the screen looks.
    pub fn new(surroundings: &OutputSurroundings) -> Self {
        let live = surroundings.stderr_terminal && surroundings.capable;
        let answer =
            if surroundings.stdout_terminal { AnswerPlace::Streamed } else { AnswerPlace::AtEnd };
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
        }
    }

    /// Makes the style of a file of `width` columns: no colours, nothing live.
    pub fn plain(width: usize) -> Self {
        Self::new(&OutputSurroundings {
            stdout_terminal: false,
            stderr_terminal: false,
            capable: false,
            no_colour: false,
            utf8: true,
            width: Some(width),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMINAL: OutputSurroundings = OutputSurroundings {
        stdout_terminal: true,
        stderr_terminal: true,
        capable: true,
        no_colour: false,
        utf8: true,
        width: Some(80),
    };

    #[test]
    fn colour_life_and_answer_follow_from_the_surroundings() {
        let table = [
            ("terminal", TERMINAL, (true, true, AnswerPlace::Streamed)),
            (
                "NO_COLOR",
                OutputSurroundings { no_colour: true, ..TERMINAL },
                (false, true, AnswerPlace::Streamed),
            ),
            (
                "dumb",
                OutputSurroundings { capable: false, ..TERMINAL },
                (false, false, AnswerPlace::Streamed),
            ),
            (
                "stdout piped",
                OutputSurroundings { stdout_terminal: false, ..TERMINAL },
                (true, true, AnswerPlace::AtEnd),
            ),
            (
                "stderr piped",
                OutputSurroundings { stderr_terminal: false, ..TERMINAL },
                (false, false, AnswerPlace::Streamed),
            ),
        ];
        for (name, surroundings, expected) in table {
            let style = ConsoleStyle::new(&surroundings);
            assert_eq!((style.colour, style.live, style.answer), expected, "{name}");
        }
    }

    #[test]
    fn a_width_is_never_so_small_that_nothing_fits() {
        assert_eq!(ConsoleStyle::new(&OutputSurroundings { width: Some(3), ..TERMINAL }).width, 20);
        assert_eq!(ConsoleStyle::new(&OutputSurroundings { width: None, ..TERMINAL }).width, 100);
    }
}
