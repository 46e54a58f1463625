//! The input of the chat: whole lines, or keys with an editor.

use crow_console::{LineInputBuffer, TypedLine};
use crow_terminal::{InputAction, PromptInput};

/// The input of the chat.
pub(super) enum ChatInput {
    /// A line whose end alone is edited; between runs a line editor reads.
    Lines(LineInputBuffer),
    /// An editor below the output, also while the agent works.
    Editor(Box<PromptInput>),
}

impl ChatInput {
    /// Takes bytes, and returns what they ask for.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<InputAction> {
        match self {
            Self::Lines(lines) => lines.push(bytes).into_iter().map(action).collect(),
            Self::Editor(editor) => editor.push(bytes),
        }
    }

    /// Takes the time without input into account.
    pub(super) fn on_pause(&mut self) -> Vec<InputAction> {
        match self {
            Self::Lines(_) => Vec::new(),
            Self::Editor(editor) => editor.on_pause(),
        }
    }

    /// Returns the text of the unfinished input.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Lines(lines) => lines.text(),
            Self::Editor(editor) => editor.text(),
        }
    }

    /// Replaces the text and returns the previous one.
    pub(super) fn replace(&mut self, text: String) -> String {
        match self {
            Self::Lines(lines) => lines.replace(text),
            Self::Editor(editor) => editor.replace(&text),
        }
    }

    /// Inserts a text before the current one, on lines of its own.
    pub(super) fn put_before(&mut self, text: &str) {
        match self {
            Self::Lines(lines) => lines.put_before(text),
            Self::Editor(editor) => editor.put_before(text),
        }
    }

    /// Appends a text.
    pub(super) fn append(&mut self, text: &str) {
        match self {
            Self::Lines(lines) => lines.append(text),
            Self::Editor(editor) => editor.append(text),
        }
    }

    /// Takes the unfinished state of lines as bytes, for the line editor to continue with.
    pub(super) fn take_unfinished(&mut self) -> Vec<u8> {
        match self {
            Self::Lines(lines) => lines.take_unfinished(),
            Self::Editor(_) => Vec::new(),
        }
    }
}

fn action(typed: TypedLine) -> InputAction {
    match typed {
        TypedLine::Line(line) => InputAction::Line(line),
        TypedLine::EndOfInput => InputAction::EndOfInput,
        TypedLine::Suspend => InputAction::Suspend,
        TypedLine::Redraw => InputAction::Redraw,
    }
}
