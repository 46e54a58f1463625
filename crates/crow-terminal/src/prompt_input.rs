//! The prompt of a chat: keys in, what they ask for and the rows to show out.

use crate::{
    editor::{
        ChipId, CompletionContext, CompletionKind, EditingStyle, EditorEffect, EditorSnapshot,
        PromptEditor, file_reference, image_labels,
    },
    file_index::FileMatch,
    inline_screen::InputView,
    keys::{InputEvent, Key, KeyCode, KeyModifiers},
    line_layout::clipped_line,
    popup::{CompletionPopup, EditCause, ListedCommand, PopupChoice, PopupStep},
    screen_size::ScreenSize,
};

/// Maximum number of rows of the prompt.
const MOST_ROWS: usize = 8;
/// Share of the screen for the prompt, the list below it and the status line, in percent, and its bounds in rows.
const SHARE: usize = 40;
const LEAST_SHARE: usize = 3;
const MOST_SHARE: usize = 12;

/// Action that a key requests from the chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InputAction {
    /// The text was entered.
    Line(EnteredLine),
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
    /// Ctrl-o.
    Transcript,
}

/// A text that was entered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EnteredLine {
    /// The text as it was on the screen, with labels of pastes and images.
    pub(crate) shown: String,
    /// The text with pastes in the place of their labels.
    pub(crate) text: String,
    /// The images in their order.
    pub(crate) images: Vec<ChipId>,
}

impl EnteredLine {
    /// Joins lines to one input.
    pub(crate) fn join(lines: impl IntoIterator<Item = Self>) -> Self {
        let mut joined = Self::default();
        for (number, line) in lines.into_iter().enumerate() {
            let between = if number == 0 { "" } else { "\n" };
            joined.shown.extend([between, &line.shown]);
            joined.text.extend([between, &line.text]);
            joined.images.extend(line.images);
        }
        joined
    }

    /// Replaces the label of an image by a text, if the line has the image.
    pub(crate) fn replace_image(&mut self, image: ChipId, replacement: &str) {
        let Some(position) = self.images.iter().position(|other| *other == image) else { return };
        for text in [&mut self.shown, &mut self.text] {
            let labels = image_labels(text);
            // Other texts may look like labels: then it is not known which one it is.
            if labels.len() == self.images.len() {
                text.replace_range(labels[position].clone(), replacement);
            }
        }
        self.images.remove(position);
    }
}

impl From<String> for EnteredLine {
    fn from(text: String) -> Self {
        Self { shown: text.clone(), text, images: Vec::new() }
    }
}

/// The prompt of a chat.
#[derive(Debug)]
pub(crate) struct PromptInput {
    editor: PromptEditor,
    popup: CompletionPopup,
}

impl PromptInput {
    /// Makes an empty prompt with these earlier prompts, of which the newest is the last.
    pub(crate) fn new(commands: Vec<ListedCommand>, history: Vec<String>) -> Self {
        let mut editor = PromptEditor::new(EditingStyle::Emacs);
        editor.set_history(history);
        Self { editor, popup: CompletionPopup::new(commands) }
    }

    /// Returns the text, with the labels of pastes in it.
    pub(crate) fn text(&self) -> &str {
        self.editor.text()
    }

    /// Returns the text with pastes in the place of their labels.
    pub(crate) fn expanded_text(&self) -> String {
        self.editor.expanded_text()
    }

    /// Returns true if there is no text.
    pub(crate) fn is_empty(&self) -> bool {
        self.editor.text().is_empty()
    }

    /// Takes the text with its labels and its cursor.
    pub(crate) fn take_draft(&mut self) -> EditorSnapshot {
        let draft = self.editor.snapshot();
        self.take_text();
        draft
    }

    /// Replaces the text by one that was taken.
    pub(crate) fn restore_draft(&mut self, draft: EditorSnapshot) {
        self.editor.restore(draft);
        self.follow(EditCause::Recalled);
    }

    /// Replaces the text, and returns the one before.
    pub(crate) fn replace(&mut self, text: &str) -> String {
        let before = self.take_text();
        self.editor.set_text(text);
        before
    }

    /// Inserts a text with the labels of these images before the current one, on lines of its own.
    pub(crate) fn put_before(&mut self, text: &str, images: &[ChipId]) {
        self.popup.close();
        self.editor.put_before(text, images);
    }

    /// Replaces the text by one that was made from it. Images whose labels are in it stay.
    pub(crate) fn set_edited_text(&mut self, text: &str) {
        self.popup.close();
        self.editor.set_edited_text(text);
    }

    /// Returns the identifier of an image that is not in the text yet.
    pub(crate) fn new_image(&mut self) -> ChipId {
        self.editor.chip_names.new_image()
    }

    /// Replaces the label of an image by a text. Returns false if the image is not in the text.
    pub(crate) fn replace_image(&mut self, image: ChipId, text: &str) -> bool {
        self.popup.close();
        self.editor.replace_image(image, text)
    }

    /// Appends a text.
    pub(crate) fn append(&mut self, text: &str) {
        self.popup.close();
        let end = self.editor.text().len();
        self.editor.replace(end..end, text);
    }

    /// Inserts the label of an image at the cursor.
    pub(crate) fn insert_image(&mut self, name: &str) -> ChipId {
        let image = self.editor.insert_image(name);
        self.follow(EditCause::Pasted);
        image
    }

    /// Inserts a text at the cursor like one that was pasted.
    pub(crate) fn paste(&mut self, text: &str) {
        self.editor.paste(text);
        self.follow(EditCause::Pasted);
    }

    /// Adds an entered prompt to the earlier ones.
    pub(crate) fn remember(&mut self, text: &str) {
        self.editor.push_history(text.to_owned());
    }

    /// Returns the query for files if the list of files is open. The matches of each new one are expected by
    /// [`set_file_matches`](Self::set_file_matches).
    pub(crate) fn file_query(&self) -> Option<&str> {
        self.popup.file_query()
    }

    /// Sets the files that match a query, the best first. They are ignored if another query is current.
    pub(crate) fn set_file_matches(&mut self, query: &str, matches: Vec<FileMatch>) {
        self.popup.set_files(query, matches);
    }

    /// Changes the set of keys.
    pub(crate) fn set_keys(&mut self, style: EditingStyle) {
        self.editor.set_style(style);
    }

    /// Returns true if keys are commands of vi and not text.
    pub(crate) fn is_in_normal_mode(&self) -> bool {
        self.editor.is_in_normal_mode()
    }

    /// Returns true while earlier prompts are searched.
    pub(crate) fn is_searching(&self) -> bool {
        self.editor.is_searching()
    }

    /// Returns the rows to show: the prompt, and below it the list of what can be completed.
    pub(crate) fn view(&mut self, size: ScreenSize, mark: &str) -> InputView {
        let columns = size.columns.saturating_sub(1).max(1);
        let most = (size.rows / 3).clamp(1, MOST_ROWS);
        let view = self.editor.view(columns, most, mark);
        self.popup.set_room(popup_room(size.rows));
        let below = self.popup.rows(columns);
        // The view of the editor has two columns at least.
        let rows = view.lines.iter().map(|line| clipped_line(line, columns)).collect();
        InputView { above: Vec::new(), rows, cursor: view.cursor, below }
    }

    /// Takes an event of the terminal, and returns the action that it requests.
    pub(crate) fn on_event(&mut self, event: InputEvent) -> Option<InputAction> {
        match event {
            InputEvent::Key(key) if key.code == KeyCode::BackTab => {
                Some(InputAction::CyclePermissions)
            }
            InputEvent::Key(key) => self.on_key(key),
            InputEvent::Paste(text) => {
                self.paste(&text);
                None
            }
            InputEvent::FocusGained
            | InputEvent::FocusLost
            | InputEvent::Reply(_)
            | InputEvent::Unknown => None,
        }
    }

    fn on_key(&mut self, key: Key) -> Option<InputAction> {
        if let Some(popup_key) = PopupKey::of(key).filter(|_| self.is_popup_open()) {
            match self.on_popup_key(popup_key) {
                PopupOutcome::Action(action) => return Some(action),
                PopupOutcome::Nothing => return None,
                PopupOutcome::KeyOfEditor => {}
            }
        }
        let length = self.editor.text().len();
        let was_searching = self.editor.is_searching();
        let effect = self.editor.on_key(key);
        let recalls = matches!(
            PopupKey::of(key),
            Some(PopupKey::Step(PopupStep::Previous | PopupStep::Next))
        );
        let cause = if recalls || was_searching {
            EditCause::Recalled
        } else if self.editor.text().len() == length {
            EditCause::Moved
        } else {
            EditCause::Typed
        };
        let action = self.on_effect(effect);
        self.follow(cause);
        action
    }

    fn on_effect(&mut self, effect: EditorEffect) -> Option<InputAction> {
        match effect {
            EditorEffect::Submit => Some(InputAction::Line(self.take_line())),
            EditorEffect::Interrupt => Some(InputAction::Interrupt),
            EditorEffect::Escape => Some(InputAction::Escape),
            EditorEffect::EndOfInput => Some(InputAction::EndOfInput),
            EditorEffect::Suspend => Some(InputAction::Suspend),
            EditorEffect::ClearScreen => Some(InputAction::Redraw),
            EditorEffect::Complete => {
                self.open_popup();
                None
            }
            EditorEffect::ExternalEditor => Some(InputAction::ExternalEditor),
            EditorEffect::ToggleTranscript => Some(InputAction::Transcript),
            EditorEffect::None | EditorEffect::Redraw => None,
        }
    }

    /// Returns true if a list of completions is open.
    pub(crate) fn is_popup_open(&self) -> bool {
        self.popup.is_visible() && !self.editor.is_in_normal_mode()
    }

    /// Opens the list of the word at the cursor, or inserts its only entry.
    fn open_popup(&mut self) {
        let Some(context) = self.editor.completion_context() else { return };
        self.popup.open(context);
        if self.popup.entry_count() == 1
            && let Some(choice) = self.popup.choice()
        {
            self.insert(&choice);
        }
    }

    fn on_popup_key(&mut self, key: PopupKey) -> PopupOutcome {
        match key {
            PopupKey::Step(step) => self.popup.step(step),
            PopupKey::Close => self.popup.dismiss(),
            PopupKey::Complete => {
                if let Some(choice) = self.popup.choice() {
                    self.insert(&choice);
                }
            }
            PopupKey::Enter => return self.enter(),
        }
        PopupOutcome::Nothing
    }

    /// Runs or inserts the marked entry.
    fn enter(&mut self) -> PopupOutcome {
        let (Some(choice), Some(context)) =
            (self.popup.entered(), self.editor.completion_context())
        else {
            return PopupOutcome::KeyOfEditor;
        };
        // A command that is followed by other text is not replaced unless it was selected.
        let is_alone = context.range == (0..self.editor.text().len());
        if context.kind == CompletionKind::Command && !is_alone && !self.popup.has_selection() {
            return PopupOutcome::KeyOfEditor;
        }
        match choice {
            PopupChoice::Command { name } if is_alone => {
                self.take_text();
                PopupOutcome::Action(InputAction::Line(format!("/{name}").into()))
            }
            PopupChoice::Command { .. }
            | PopupChoice::CommandWithArgument { .. }
            | PopupChoice::File { .. } => {
                self.insert(&choice);
                PopupOutcome::Nothing
            }
        }
    }

    /// Replaces the word at the cursor by an entry.
    fn insert(&mut self, choice: &PopupChoice) {
        let Some(CompletionContext { range, .. }) = self.editor.completion_context() else {
            return;
        };
        let text = self.editor.text();
        // The quote behind a path in quotes is replaced with it.
        let is_quoted =
            text[range.clone()].starts_with("@\"") && text[range.end..].starts_with('"');
        let end = range.end + usize::from(is_quoted);
        let space = if text[end..].starts_with(char::is_whitespace) { "" } else { " " };
        match choice {
            PopupChoice::Command { name } | PopupChoice::CommandWithArgument { name } => {
                self.editor.replace(range, &format!("/{name}{space}"));
            }
            PopupChoice::File { path } if path.ends_with('/') => {
                let reference = file_reference(path);
                self.editor.replace(range.start..end, &reference);
                if reference.ends_with('"') {
                    // What is in the directory comes before the quote.
                    self.editor.on_key(Key::plain(KeyCode::Left));
                }
                return self.follow(EditCause::Typed);
            }
            PopupChoice::File { path } => {
                let reference = file_reference(path);
                self.editor.replace(range.start..end, &format!("{reference}{space}"));
            }
        }
        self.popup.dismiss();
        self.follow(EditCause::Moved);
    }

    fn follow(&mut self, cause: EditCause) {
        self.popup.follow(self.editor.completion_context(), cause);
    }

    /// Takes the text with its images, and closes the list.
    fn take_line(&mut self) -> EnteredLine {
        self.popup.close();
        let shown = self.editor.text().to_owned();
        let submission = self.editor.take_submission();
        let images = submission.images().collect();
        EnteredLine { shown, text: submission.text, images }
    }

    /// Takes the text, and closes the list.
    fn take_text(&mut self) -> String {
        self.popup.close();
        self.editor.take_submission().text
    }
}

/// Returns the number of rows that the list can have below a prompt of one row, with the status line below it.
fn popup_room(rows: usize) -> usize {
    let share = (rows * SHARE / 100).clamp(LEAST_SHARE, MOST_SHARE);
    share.min(rows.saturating_sub(1)).saturating_sub(2)
}

/// What a key means for the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PopupKey {
    Step(PopupStep),
    Complete,
    Enter,
    Close,
}

impl PopupKey {
    fn of(key: Key) -> Option<Self> {
        match (key.code, key.modifiers) {
            (KeyCode::Up, KeyModifiers::NONE) | (KeyCode::Char('p'), KeyModifiers::CTRL) => {
                Some(Self::Step(PopupStep::Previous))
            }
            (KeyCode::Down, KeyModifiers::NONE) | (KeyCode::Char('n'), KeyModifiers::CTRL) => {
                Some(Self::Step(PopupStep::Next))
            }
            (KeyCode::Tab, KeyModifiers::NONE) | (KeyCode::Char('i'), KeyModifiers::CTRL) => {
                Some(Self::Complete)
            }
            (KeyCode::Enter, KeyModifiers::NONE) | (KeyCode::Char('m'), KeyModifiers::CTRL) => {
                Some(Self::Enter)
            }
            (KeyCode::Escape, KeyModifiers::NONE) | (KeyCode::Char('['), KeyModifiers::CTRL) => {
                Some(Self::Close)
            }
            _ => None,
        }
    }
}

/// What became of a key while the list was open.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PopupOutcome {
    Action(InputAction),
    Nothing,
    KeyOfEditor,
}
