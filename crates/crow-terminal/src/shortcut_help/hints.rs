//! The line of the most useful keys.

use super::shortcut::{Shortcut, shortcut_row};
use crate::styled_text::{StyledLine, TextRole};

/// The situation that hints are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShortcutContext {
    /// The prompt has no text, and the agent waits.
    EmptyPrompt,
    /// The prompt has text, and the agent waits.
    PromptWithText,
    /// The agent works.
    Working,
    /// A question waits for an answer.
    QuestionOpen,
    /// The history is searched.
    HistorySearch,
}

/// The meaning of keys at the prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum KeyMode {
    #[default]
    Emacs,
    ViInsert,
    ViNormal,
}

const SEND: Shortcut = Shortcut::new("enter", "send");
const STEER: Shortcut = Shortcut::new("enter", "steer");
const INSERT: Shortcut = Shortcut::new("i", "insert");
const CLEAR: Shortcut = Shortcut::new("ctrl-c", "clear");
const EDITOR: Shortcut = Shortcut::new("ctrl-x ctrl-e", "editor");
const TRANSCRIPT: Shortcut = Shortcut::new("ctrl-o", "transcript");
const PERMISSIONS: Shortcut = Shortcut::new("shift-tab", "permissions");
const COMMANDS: Shortcut = Shortcut::new("/", "commands");
const FILES: Shortcut = Shortcut::new("@", "files");
const SHELL: Shortcut = Shortcut::new("!", "shell");
const EARLIER: Shortcut = Shortcut::new("k", "earlier prompt");
const NEW_LINE: Shortcut = Shortcut::new("ctrl-j", "new line");
const CHOOSE: Shortcut = Shortcut::new("↑↓", "choose");
const ANSWER: Shortcut = Shortcut::new("enter", "answer");
const ACCEPT: Shortcut = Shortcut::new("enter", "accept");
const OLDER: Shortcut = Shortcut::new("ctrl-r", "older");
const NEWER: Shortcut = Shortcut::new("ctrl-s", "newer");
const CANCEL: Shortcut = Shortcut::new("esc", "cancel");
/// Escape stops the agent, unless it ends the insert mode of vi.
const STOP: Shortcut = Shortcut::new("esc", "stop");
const STOP_FROM_INSERT_MODE: Shortcut = Shortcut::new("ctrl-c", "stop");

/// Returns the hints for a situation, the most useful one first.
pub(crate) fn hints_for(context: ShortcutContext, mode: KeyMode) -> &'static [Shortcut] {
    match (context, mode) {
        (ShortcutContext::EmptyPrompt, KeyMode::Emacs | KeyMode::ViInsert) => {
            &[COMMANDS, FILES, SHELL, PERMISSIONS]
        }
        (ShortcutContext::EmptyPrompt, KeyMode::ViNormal) => {
            &[INSERT, EARLIER, PERMISSIONS, TRANSCRIPT]
        }
        (ShortcutContext::PromptWithText, KeyMode::Emacs | KeyMode::ViInsert) => {
            &[SEND, NEW_LINE, CLEAR, EDITOR]
        }
        (ShortcutContext::PromptWithText, KeyMode::ViNormal) => &[SEND, INSERT, CLEAR, EDITOR],
        (ShortcutContext::Working, KeyMode::Emacs) => &[STOP, STEER, TRANSCRIPT],
        (ShortcutContext::Working, KeyMode::ViInsert) => {
            &[STOP_FROM_INSERT_MODE, STEER, TRANSCRIPT]
        }
        (ShortcutContext::Working, KeyMode::ViNormal) => &[STOP, INSERT, STEER, TRANSCRIPT],
        (ShortcutContext::QuestionOpen, KeyMode::Emacs | KeyMode::ViNormal) => {
            &[ANSWER, CHOOSE, STOP]
        }
        (ShortcutContext::QuestionOpen, KeyMode::ViInsert) => {
            &[ANSWER, CHOOSE, STOP_FROM_INSERT_MODE]
        }
        (ShortcutContext::HistorySearch, _) => &[ACCEPT, OLDER, NEWER, CANCEL],
    }
}

/// Returns a dim line with as many hints as fit the columns, from the most useful one on.
pub(crate) fn shortcut_hints(
    context: ShortcutContext,
    mode: KeyMode,
    columns: usize,
) -> StyledLine {
    shortcut_row(hints_for(context, mode), TextRole::Dim, columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXTS: [ShortcutContext; 5] = [
        ShortcutContext::EmptyPrompt,
        ShortcutContext::PromptWithText,
        ShortcutContext::Working,
        ShortcutContext::QuestionOpen,
        ShortcutContext::HistorySearch,
    ];

    #[test]
    fn a_line_has_the_keys_of_the_situation() {
        let table = [
            (
                ShortcutContext::EmptyPrompt,
                KeyMode::Emacs,
                "/ commands · @ files · ! shell · shift-tab permissions",
            ),
            (
                ShortcutContext::PromptWithText,
                KeyMode::Emacs,
                "enter send · ctrl-j new line · ctrl-c clear · ctrl-x ctrl-e editor",
            ),
            (
                ShortcutContext::PromptWithText,
                KeyMode::ViNormal,
                "enter send · i insert · ctrl-c clear · ctrl-x ctrl-e editor",
            ),
            (
                ShortcutContext::Working,
                KeyMode::Emacs,
                "esc stop · enter steer · ctrl-o transcript",
            ),
            (
                ShortcutContext::Working,
                KeyMode::ViInsert,
                "ctrl-c stop · enter steer · ctrl-o transcript",
            ),
            (ShortcutContext::QuestionOpen, KeyMode::Emacs, "enter answer · ↑↓ choose · esc stop"),
            (
                ShortcutContext::HistorySearch,
                KeyMode::Emacs,
                "enter accept · ctrl-r older · ctrl-s newer · esc cancel",
            ),
        ];
        for (context, mode, expected) in table {
            let line = shortcut_hints(context, mode, 80);
            assert_eq!(line.text(), expected);
            assert!(line.spans().iter().all(|span| span.look == TextRole::Dim.into()));
        }
    }

    #[test]
    fn every_situation_has_three_or_four_hints_that_fit_80_columns() {
        for context in CONTEXTS {
            for mode in [KeyMode::Emacs, KeyMode::ViInsert, KeyMode::ViNormal] {
                let hints = hints_for(context, mode);
                assert!((3..=4).contains(&hints.len()), "{context:?} {mode:?}");
                let text = shortcut_hints(context, mode, 79).text();
                assert!(hints.iter().all(|hint| text.contains(hint.keys)), "{text}");
            }
        }
    }
}
