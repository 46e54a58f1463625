//! The picker: keys in, what was chosen and the rows to show out.

use std::collections::BTreeSet;

use super::{
    item_list::{ItemList, ListItem},
    picker_layout::PickerLayout,
    picker_rows::{PickerHead, picker_frame},
};
use crate::{
    full_screen::{
        key_hints::{KeyHint, key_name},
        line_layout::visible_title,
        text_field::TextField,
        view::{FullScreenFrame, FullScreenView, ViewEffect},
    },
    keys::{Key, KeyCode, KeyModifiers},
    screen_size::ScreenSize,
    styled_text::StyledLine,
};

/// The reason why a key cannot be given an action of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ActionKeyError {
    /// The key types text into the filter.
    #[error("the key types text into the filter")]
    Text,
    /// The picker uses the key itself.
    #[error("the picker uses the key itself")]
    Reserved,
    /// The key has an action already.
    #[error("the key has an action already")]
    Duplicate,
}

/// The number of items that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChoiceMode {
    One,
    /// Any number, with the indices of those that are marked.
    Several(BTreeSet<usize>),
}

/// Meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PickerKey {
    Close,
    ClearOrClose,
    Choose,
    Mark,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
}

/// A titled list to choose from, which takes the whole screen and is filtered by typing.
#[derive(Debug)]
pub struct ListPicker {
    title: String,
    noun: String,
    list: ItemList,
    filter: TextField,
    choice: ChoiceMode,
    actions: Vec<(Key, KeyHint)>,
    /// Number of rows of the list in the last frame.
    page: usize,
}

impl ListPicker {
    /// Creates a picker of one item. `noun` says in the plural what the items are, such as `sessions`.
    #[must_use]
    pub fn new(title: &str, noun: &str, items: Vec<ListItem>) -> Self {
        Self {
            title: visible_title(title),
            noun: visible_title(noun),
            list: ItemList::new(items),
            filter: TextField::default(),
            choice: ChoiceMode::One,
            actions: Vec::new(),
            page: 1,
        }
    }

    /// Lets any number of items be chosen: space marks the selected one, and enter chooses all that are marked.
    #[must_use]
    pub fn with_several_choices(self) -> Self {
        Self { choice: ChoiceMode::Several(BTreeSet::new()), ..self }
    }

    /// Selects the item of this index at first.
    #[must_use]
    pub fn with_selected(mut self, index: usize) -> Self {
        self.list.select_index(index);
        self
    }

    /// Gives a key an action of its own, which leads to [`ViewEffect::Action`]. `description` is shown beside the name
    /// of the key, and should be a verb.
    ///
    /// # Errors
    /// Fails for keys that type text, have a meaning here, or have been registered already.
    pub fn with_action(mut self, key: Key, description: &str) -> Result<Self, ActionKeyError> {
        if self.meaning(key).is_some() {
            return Err(ActionKeyError::Reserved);
        }
        if TextField::default().on_key(key) {
            return Err(match key.code {
                KeyCode::Char(_) if key.modifiers == KeyModifiers::NONE => ActionKeyError::Text,
                _ => ActionKeyError::Reserved,
            });
        }
        if self.actions.iter().any(|(other, _)| *other == key) {
            return Err(ActionKeyError::Duplicate);
        }
        self.actions.push((key, KeyHint::new(&key_name(key), &visible_title(description))));
        Ok(self)
    }

    /// Replaces the items: some were deleted or renamed. The filter and the position of the selected item stay; marks
    /// of items are removed.
    pub fn set_items(&mut self, items: Vec<ListItem>) {
        if let ChoiceMode::Several(marked) = &mut self.choice {
            marked.clear();
        }
        self.list.set_items(items);
    }

    /// Sets the preview of an item. An index without an item has no effect.
    pub fn set_preview(&mut self, index: usize, preview: Vec<StyledLine>) {
        if let Some(item) = self.list.item_mut(index) {
            item.set_preview(preview);
        }
    }

    /// Returns the index of the selected item, if any item matches the filter.
    pub fn selected(&self) -> Option<usize> {
        self.list.selected_index()
    }

    fn meaning(&self, key: Key) -> Option<PickerKey> {
        let meaning = match (key.code, key.modifiers) {
            (KeyCode::Char('c'), KeyModifiers::CTRL) => PickerKey::Close,
            (KeyCode::Escape, KeyModifiers::NONE) => PickerKey::ClearOrClose,
            (KeyCode::Enter, KeyModifiers::NONE) => PickerKey::Choose,
            (KeyCode::Char(' '), KeyModifiers::NONE) if self.choice != ChoiceMode::One => {
                PickerKey::Mark
            }
            (KeyCode::Up, KeyModifiers::NONE) | (KeyCode::Char('p'), KeyModifiers::CTRL) => {
                PickerKey::Up
            }
            (KeyCode::Down, KeyModifiers::NONE) | (KeyCode::Char('n'), KeyModifiers::CTRL) => {
                PickerKey::Down
            }
            (KeyCode::PageUp, KeyModifiers::NONE) => PickerKey::PageUp,
            (KeyCode::PageDown, KeyModifiers::NONE) => PickerKey::PageDown,
            (KeyCode::Home, KeyModifiers::NONE) => PickerKey::First,
            (KeyCode::End, KeyModifiers::NONE) => PickerKey::Last,
            _ => return None,
        };
        Some(meaning)
    }

    fn on_meaning(&mut self, meaning: PickerKey) -> ViewEffect {
        let selected = self.list.selected();
        match meaning {
            PickerKey::Close => return ViewEffect::Close,
            PickerKey::ClearOrClose if self.filter.is_empty() => return ViewEffect::Close,
            PickerKey::ClearOrClose => {
                // The item that was found stays selected.
                let index = self.list.selected_index();
                self.filter.clear();
                self.list.set_filter("");
                if let Some(index) = index {
                    self.list.select_index(index);
                }
            }
            PickerKey::Choose => return self.chosen(),
            PickerKey::Mark => self.mark(),
            PickerKey::Up => self.list.select(selected.saturating_sub(1)),
            PickerKey::Down => self.list.select(selected + 1),
            PickerKey::PageUp => self.list.select(selected.saturating_sub(self.page)),
            PickerKey::PageDown => self.list.select(selected + self.page),
            PickerKey::First => self.list.select(0),
            PickerKey::Last => self.list.select(usize::MAX),
        }
        ViewEffect::Redraw
    }

    fn chosen(&self) -> ViewEffect {
        match &self.choice {
            ChoiceMode::One => self.selected().map_or(ViewEffect::None, ViewEffect::Chosen),
            ChoiceMode::Several(marked) => ViewEffect::ChosenSet(marked.iter().copied().collect()),
        }
    }

    fn mark(&mut self) {
        let index = self.list.selected_index();
        if let (ChoiceMode::Several(marked), Some(index)) = (&mut self.choice, index)
            && !marked.remove(&index)
        {
            marked.insert(index);
        }
    }

    /// Returns the hints at the bottom, the most important ones first.
    fn hints(&self) -> Vec<KeyHint> {
        let mut hints = match self.choice {
            ChoiceMode::One => vec![KeyHint::new("enter", "choose")],
            ChoiceMode::Several(_) => {
                vec![KeyHint::new("space", "mark"), KeyHint::new("enter", "confirm")]
            }
        };
        let escape = if self.filter.is_empty() { "close" } else { "clear the filter" };
        hints.push(KeyHint::new("esc", escape));
        hints.extend(self.actions.iter().map(|(_, hint)| hint.clone()));
        hints.push(KeyHint::new("↑↓", "move"));
        hints
    }
}

impl FullScreenView for ListPicker {
    fn on_key(&mut self, key: Key) -> ViewEffect {
        if let Some(meaning) = self.meaning(key) {
            return self.on_meaning(meaning);
        }
        if self.actions.iter().any(|(other, _)| *other == key) {
            let action = |index| ViewEffect::Action { key, index };
            return self.selected().map_or(ViewEffect::None, action);
        }
        if !self.filter.on_key(key) {
            return ViewEffect::None;
        }
        self.list.set_filter(self.filter.text());
        ViewEffect::Redraw
    }

    fn on_paste(&mut self, text: &str) {
        self.filter.paste(text);
        self.list.set_filter(self.filter.text());
    }

    fn frame(&mut self, size: ScreenSize) -> FullScreenFrame {
        let has_preview = self.list.items().iter().any(|item| !item.preview().is_empty());
        let layout = PickerLayout::new(size, has_preview);
        self.page = layout.list_rows.max(1);
        let hints = self.hints();
        let head = PickerHead {
            title: &self.title,
            noun: &self.noun,
            filter: &self.filter,
            hints: &hints,
        };
        picker_frame(&layout, &head, &mut self.list, &self.choice)
    }
}
