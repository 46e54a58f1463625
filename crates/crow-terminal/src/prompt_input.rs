//! The prompt of a chat: keys in, what they ask for and the rows to show out.

use crate::{
    editor::{CompletionKind, EditingStyle, EditorEffect, PromptEditor},
    inline_screen::{InputView, ScreenSize, shortened},
    input_decoder::InputDecoder,
    keys::{InputEvent, KeyCode},
    styled_text::{StyledLine, TextRole},
};

/// Maximum number of commands that are listed below the prompt.
const MOST_LISTED: usize = 6;
/// Maximum number of rows of the prompt.
const MOST_ROWS: usize = 8;

/// Action that a key requests from the chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputAction {
    /// The text was entered.
    Line(String),
    /// Ctrl-c.
    Interrupt,
    /// Escape.
    Escape,
    /// Ctrl-d without text.
    EndOfInput,
    /// Ctrl-z.
    Suspend,
    /// Ctrl-l.
    Redraw,
    /// Ctrl-x ctrl-e.
    ExternalEditor,
    /// Shift-tab.
    CyclePermissions,
}

/// A command that can be completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedCommand {
    /// The name without its slash.
    pub name: String,
    pub description: String,
}

/// The prompt of a chat.
#[derive(Debug)]
pub struct PromptInput {
    decoder: InputDecoder,
    editor: PromptEditor,
    commands: Vec<ListedCommand>,
}

impl PromptInput {
    /// Makes an empty prompt with these earlier prompts, of which the newest is the last.
    pub fn new(commands: Vec<ListedCommand>, history: Vec<String>) -> Self {
        let mut editor = PromptEditor::new(EditingStyle::Emacs);
        editor.set_history(history);
        Self { decoder: InputDecoder::default(), editor, commands }
    }

    /// Takes bytes of the terminal, and returns what they ask for.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<InputAction> {
        let events = self.decoder.push(bytes);
        self.on_events(events)
    }

    /// Takes the time without input into account: a lone escape is the key of that name.
    pub fn on_pause(&mut self) -> Vec<InputAction> {
        let events = self.decoder.flush();
        self.on_events(events)
    }

    /// Returns the text, with the labels of pastes in it.
    pub fn text(&self) -> &str {
        self.editor.text()
    }

    /// Returns the text with pastes in the place of their labels.
    pub fn expanded_text(&self) -> String {
        self.editor.expanded_text()
    }

    /// Returns true if there is no text.
    pub fn is_empty(&self) -> bool {
        self.editor.is_empty()
    }

    /// Replaces the text, and returns the one before.
    pub fn replace(&mut self, text: &str) -> String {
        let before = self.editor.take_text();
        self.editor.set_text(text);
        before
    }

    /// Inserts a text before the current one, on lines of its own.
    pub fn put_before(&mut self, text: &str) {
        let rest = self.editor.take_text();
        let between = if rest.is_empty() { "" } else { "\n" };
        self.editor.set_text(&format!("{text}{between}{rest}"));
    }

    /// Appends a text.
    pub fn append(&mut self, text: &str) {
        let before = self.editor.take_text();
        self.editor.set_text(&format!("{before}{text}"));
    }

    /// Adds an entered prompt to the earlier ones.
    pub fn remember(&mut self, text: &str) {
        self.editor.push_history(text.to_owned());
    }

    /// Changes the set of keys.
    pub fn set_keys(&mut self, style: EditingStyle) {
        self.editor.set_style(style);
    }

    /// Returns true if keys are commands of vi and not text.
    pub fn is_in_normal_mode(&self) -> bool {
        self.editor.is_in_normal_mode()
    }

    /// Returns the rows to show: the prompt, and below it the commands that fit what is typed.
    pub fn view(&mut self, size: ScreenSize, mark: &str) -> InputView {
        let columns = size.columns.saturating_sub(1).max(2);
        let most = (size.rows / 3).clamp(1, MOST_ROWS);
        let view = self.editor.view(columns, most, mark);
        let below = self.matching_rows(columns);
        InputView { above: Vec::new(), rows: view.lines, cursor: view.cursor, below }
    }

    /// Takes an event of the terminal, and returns the action that it requests.
    pub fn on_event(&mut self, event: InputEvent) -> Option<InputAction> {
        match event {
            InputEvent::Key(key) if key.code == KeyCode::BackTab => {
                Some(InputAction::CyclePermissions)
            }
            InputEvent::Key(key) => {
                let effect = self.editor.on_key(key);
                self.on_effect(effect)
            }
            InputEvent::Paste(text) => {
                self.editor.paste(&text);
                None
            }
            InputEvent::FocusGained
            | InputEvent::FocusLost
            | InputEvent::Reply(_)
            | InputEvent::Unknown => None,
        }
    }

    fn on_events(&mut self, events: Vec<InputEvent>) -> Vec<InputAction> {
        events.into_iter().filter_map(|event| self.on_event(event)).collect()
    }

    fn on_effect(&mut self, effect: EditorEffect) -> Option<InputAction> {
        match effect {
            EditorEffect::Submit => Some(InputAction::Line(self.editor.take_text())),
            EditorEffect::Interrupt => Some(InputAction::Interrupt),
            EditorEffect::Escape => Some(InputAction::Escape),
            EditorEffect::EndOfInput => Some(InputAction::EndOfInput),
            EditorEffect::Suspend => Some(InputAction::Suspend),
            EditorEffect::ClearScreen => Some(InputAction::Redraw),
            EditorEffect::Complete => {
                self.complete();
                None
            }
            EditorEffect::ExternalEditor => Some(InputAction::ExternalEditor),
            EditorEffect::None | EditorEffect::Redraw | EditorEffect::ToggleTranscript => None,
        }
    }

    /// Completes the command before the cursor as far as it is clear.
    fn complete(&mut self) {
        let Some(context) = self.editor.completion_context() else { return };
        if context.kind != CompletionKind::Command {
            return;
        }
        let names: Vec<&str> =
            self.matching(&context.typed).map(|command| command.name.as_str()).collect();
        let [first, rest @ ..] = names.as_slice() else { return };
        let common = rest.iter().fold(first.len(), |length, name| {
            let same = first.bytes().zip(name.bytes()).take(length);
            same.take_while(|(one, other)| one == other).count()
        });
        // One that is clear is ready for its argument.
        let end = if rest.is_empty() { " " } else { "" };
        let text = format!("/{}{end}", &first[..first.floor_char_boundary(common)]);
        self.editor.replace(context.range, &text);
    }

    fn matching<'a>(&'a self, beginning: &'a str) -> impl Iterator<Item = &'a ListedCommand> + 'a {
        self.commands.iter().filter(move |command| command.name.starts_with(beginning))
    }

    /// Returns the commands that begin with what is typed.
    fn matching_rows(&self, columns: usize) -> Vec<StyledLine> {
        let Some(context) = self.editor.completion_context() else { return Vec::new() };
        if context.kind != CompletionKind::Command {
            return Vec::new();
        }
        let found: Vec<&ListedCommand> = self.matching(&context.typed).collect();
        let rows = found.iter().take(MOST_LISTED).map(|command| {
            let mut row = StyledLine::default();
            row.push(format!("  /{:<12} ", command.name), TextRole::Accent);
            row.push(&command.description, TextRole::Dim);
            shortened(&row, columns)
        });
        let mut rows: Vec<StyledLine> = rows.collect();
        let more = found.len().saturating_sub(MOST_LISTED);
        if more > 0 {
            let mut row = StyledLine::default();
            row.push(format!("  … {more} more"), TextRole::Dim);
            rows.push(row);
        }
        rows
    }
}
