//! The title of the terminal's window or tab.

use crate::bounded_text::bounded_line;

/// Saves the titles of the window and its icon on the terminal's stack.
const SAVE: &str = "\u{1b}[22;0t";
/// Restores them. Terminals without the stack get an empty title, for which most show their own.
const RESTORE: &str = "\u{1b}]2;\u{1b}\\\u{1b}[23;0t";
/// Maximum width of a subject, in columns.
const LONGEST_SUBJECT: usize = 60;

/// State of the agent that a title shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TitleState {
    /// The agent waits for a prompt.
    Idle,
    /// The agent works.
    Working,
    /// A question waits for an answer.
    NeedsUser,
}

/// The title of the terminal. It makes what is to be written, and writes nothing itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct TerminalTitle {
    /// State and subject of the title that the terminal has from here.
    shown: Option<(TitleState, String)>,
}

impl TerminalTitle {
    /// Returns what sets the title for a state, and a subject such as the name of the session or folder. Returns an empty
    /// text if the title is that already. The first call saves the title before.
    pub(crate) fn set(&mut self, state: TitleState, subject: &str) -> String {
        // Called at every step of the chat: nothing is formatted to compare it.
        if self.shown.as_ref().is_some_and(|shown| shown.0 == state && shown.1 == subject) {
            return String::new();
        }
        let save = if self.shown.is_none() { SAVE } else { "" };
        self.shown = Some((state, subject.to_owned()));
        format!("{save}\u{1b}]2;{}\u{1b}\\", title(state, subject))
    }

    /// Returns what restores the title that the terminal had before; empty if it was not changed.
    pub(crate) fn restore(&mut self) -> &'static str {
        if self.shown.take().is_some() { RESTORE } else { "" }
    }
}

fn title(state: TitleState, subject: &str) -> String {
    let mark = match state {
        TitleState::Idle => "crow",
        TitleState::Working => "* crow",
        TitleState::NeedsUser => "! crow needs you",
    };
    let subject = bounded_line(subject, LONGEST_SUBJECT);
    if subject.is_empty() { mark.to_owned() } else { format!("{mark}: {subject}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_title_saves_the_one_before() {
        let mut title = TerminalTitle::default();
        assert_eq!(title.restore(), "");
        assert_eq!(title.set(TitleState::Idle, "repo"), "\u{1b}[22;0t\u{1b}]2;crow: repo\u{1b}\\");
        assert_eq!(title.set(TitleState::Idle, "repo"), "");
        assert_eq!(title.set(TitleState::Working, "repo"), "\u{1b}]2;* crow: repo\u{1b}\\");
        assert_eq!(
            title.set(TitleState::NeedsUser, "repo"),
            "\u{1b}]2;! crow needs you: repo\u{1b}\\"
        );
        assert_eq!(title.set(TitleState::Idle, " "), "\u{1b}]2;crow\u{1b}\\");
        assert_eq!(title.restore(), "\u{1b}]2;\u{1b}\\\u{1b}[23;0t");
        assert_eq!(title.restore(), "");
        assert!(title.set(TitleState::Idle, "repo").starts_with(SAVE));
    }

    #[test]
    fn a_subject_cannot_end_the_sequence() {
        let table = [
            ("a\u{1b}\\\u{1b}]52;c;eA==\u{7}b", "a␛\\␛]52;c;eA==␇b"),
            ("a\u{7}b", "a␇b"),
            ("a\u{9c}\u{9d}0;x", "a\\u{9c}\\u{9d}0;x"),
            ("a\nb\r\nc", "a b c"),
            ("a\u{202e}b\u{2066}", "a\\u{202e}b\\u{2066}"),
            ("a\u{0}\u{18}\u{1a}", "a␀␘␚"),
        ];
        for (subject, expected) in table {
            let sequence = TerminalTitle::default().set(TitleState::Idle, subject);
            assert_eq!(sequence, format!("{SAVE}\u{1b}]2;crow: {expected}\u{1b}\\"), "{subject:?}");
        }
    }

    #[test]
    fn a_long_subject_is_cut() {
        let sequence = TerminalTitle::default().set(TitleState::Idle, &"漢\u{301}".repeat(5000));
        assert!(sequence.len() < 400, "{}", sequence.len());
        assert!(sequence.ends_with("…\u{1b}\\"));
    }
}
