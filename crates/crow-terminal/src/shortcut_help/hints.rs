//! The line of the most useful keys.

use crate::styled_text::{StyledLine, TextRole};

/// The text between two hints.
const BETWEEN: &str = " · ";

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

/// Keys and what they do here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShortcutHint {
    pub(crate) keys: &'static str,
    pub(crate) action: &'static str,
}

const fn hint(keys: &'static str, action: &'static str) -> ShortcutHint {
    ShortcutHint { keys, action }
}

const SEND: ShortcutHint = hint("enter", "send");
const STEER: ShortcutHint = hint("enter", "steer");
const INSERT: ShortcutHint = hint("i", "insert");
const CLEAR: ShortcutHint = hint("ctrl-c", "clear");
const EDITOR: ShortcutHint = hint("ctrl-x ctrl-e", "editor");
const TRANSCRIPT: ShortcutHint = hint("ctrl-o", "transcript");
const PERMISSIONS: ShortcutHint = hint("shift-tab", "permissions");
const COMMANDS: ShortcutHint = hint("/", "commands");
const FILES: ShortcutHint = hint("@", "files");
const SHELL: ShortcutHint = hint("!", "shell");
const EARLIER: ShortcutHint = hint("k", "earlier prompt");
const NEW_LINE: ShortcutHint = hint("ctrl-j", "new line");
const CHOOSE: ShortcutHint = hint("↑↓", "choose");
const ANSWER: ShortcutHint = hint("enter", "answer");
const ACCEPT: ShortcutHint = hint("enter", "accept");
const OLDER: ShortcutHint = hint("ctrl-r", "older");
const NEWER: ShortcutHint = hint("ctrl-s", "newer");
const CANCEL: ShortcutHint = hint("esc", "cancel");
/// Escape stops the agent, unless it ends the insert mode of vi.
const STOP: ShortcutHint = hint("esc", "stop");
const STOP_FROM_INSERT_MODE: ShortcutHint = hint("ctrl-c", "stop");

/// Returns the hints for a situation, the most useful one first.
pub(crate) fn hints_for(context: ShortcutContext, mode: KeyMode) -> &'static [ShortcutHint] {
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
    let mut line = StyledLine::default();
    for hint in hints_for(context, mode) {
        let between = if line.width() == 0 { "" } else { BETWEEN };
        let mut longer = line.clone();
        longer.push(format!("{between}{} {}", hint.keys, hint.action), TextRole::Dim);
        if longer.width() > columns {
            return line;
        }
        line = longer;
    }
    line
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
    fn hints_that_do_not_fit_are_left_out() {
        let table = [
            (40, "enter send · ctrl-j new line"),
            (28, "enter send · ctrl-j new line"),
            (27, "enter send"),
            (10, "enter send"),
            (9, ""),
            (1, ""),
            (0, ""),
        ];
        for (columns, expected) in table {
            let line = shortcut_hints(ShortcutContext::PromptWithText, KeyMode::Emacs, columns);
            assert_eq!(line.text(), expected, "{columns}");
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
