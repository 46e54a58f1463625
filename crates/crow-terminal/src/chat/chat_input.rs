//! The input of the chat: whole lines, or keys with an editor.

use crow_console::{LineInputBuffer, TypedLine};

use crate::{
    editor::ChipId,
    keys::InputEvent,
    prompt_input::{InputAction, PromptInput},
};

/// The input of the chat.
pub(super) enum ChatInput {
    /// Lines that the terminal edits and shows.
    Lines(LineInputBuffer),
    /// An editor below the output.
    Editor(Box<PromptInput>),
}

impl ChatInput {
    /// Takes bytes of lines, and returns the actions that they request.
    pub(super) fn push_line_bytes(&mut self, bytes: &[u8]) -> Vec<InputAction> {
        match self {
            Self::Lines(lines) => lines.push(bytes).into_iter().map(action).collect(),
            Self::Editor(_) => Vec::new(),
        }
    }

    /// Takes an event of the editor, and returns the action that it requests.
    pub(super) fn on_event(&mut self, event: InputEvent) -> Option<InputAction> {
        match self {
            Self::Lines(_) => None,
            Self::Editor(editor) => editor.on_event(event),
        }
    }

    /// Returns the editor, if there is one.
    pub(super) fn editor(&mut self) -> Option<&mut PromptInput> {
        match self {
            Self::Lines(_) => None,
            Self::Editor(editor) => Some(editor),
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

    /// Inserts a text with the labels of these images before the current one, on lines of its own.
    pub(super) fn put_before(&mut self, text: &str, images: &[ChipId]) {
        match self {
            Self::Lines(lines) => lines.put_before(text),
            Self::Editor(editor) => editor.put_before(text, images),
        }
    }
}

fn action(typed: TypedLine) -> InputAction {
    match typed {
        TypedLine::Line(line) => InputAction::Line(line.into()),
        TypedLine::EndOfInput => InputAction::EndOfInput,
        TypedLine::Suspend => InputAction::Suspend,
        TypedLine::Redraw => InputAction::Redraw,
    }
}
