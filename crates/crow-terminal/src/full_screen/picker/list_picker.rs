//! The picker: keys in, what was chosen and the rows to show out.

use super::{
    item_list::{ItemList, ListItem},
    picker_layout::PickerLayout,
    picker_rows::{PickerHead, picker_frame},
};
use crate::{
    full_screen::{
        text_field::TextField,
        view::{FullScreenFrame, FullScreenView, ViewEffect},
    },
    keys::{Key, KeyCode, KeyModifiers},
    line_layout::visible_title,
    screen_size::ScreenSize,
    shortcut_help::Shortcut,
};

/// Meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PickerKey {
    Close,
    ClearOrClose,
    Choose,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
}

impl PickerKey {
    fn of(key: Key) -> Option<Self> {
        let meaning = match (key.code, key.modifiers) {
            (KeyCode::Char('c'), KeyModifiers::CTRL) => Self::Close,
            (KeyCode::Escape, KeyModifiers::NONE) => Self::ClearOrClose,
            (KeyCode::Enter, KeyModifiers::NONE) => Self::Choose,
            (KeyCode::Up, KeyModifiers::NONE) | (KeyCode::Char('p'), KeyModifiers::CTRL) => {
                Self::Up
            }
            (KeyCode::Down, KeyModifiers::NONE) | (KeyCode::Char('n'), KeyModifiers::CTRL) => {
                Self::Down
            }
            (KeyCode::PageUp, KeyModifiers::NONE) => Self::PageUp,
            (KeyCode::PageDown, KeyModifiers::NONE) => Self::PageDown,
            (KeyCode::Home, KeyModifiers::NONE) => Self::First,
            (KeyCode::End, KeyModifiers::NONE) => Self::Last,
            _ => return None,
        };
        Some(meaning)
    }
}

/// A titled list to choose from, which takes the whole screen and is filtered by typing.
#[derive(Debug)]
pub(crate) struct ListPicker {
    title: String,
    noun: String,
    list: ItemList,
    filter: TextField,
    /// Number of rows of the list in the last frame.
    page: usize,
}

impl ListPicker {
    /// Creates a picker of one item. `noun` says in the plural what the items are, such as `sessions`.
    #[must_use]
    pub(crate) fn new(title: &str, noun: &str, items: Vec<ListItem>) -> Self {
        Self {
            title: visible_title(title),
            noun: visible_title(noun),
            list: ItemList::new(items),
            filter: TextField::default(),
            page: 1,
        }
    }

    /// Selects the item of this index at first.
    #[must_use]
    pub(crate) fn with_selected(mut self, index: usize) -> Self {
        self.list.select_index(index);
        self
    }

    /// Returns the index of the selected item, if any item matches the filter.
    pub(crate) fn selected(&self) -> Option<usize> {
        self.list.selected_index()
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
            PickerKey::Choose => {
                return self.selected().map_or(ViewEffect::None, ViewEffect::Chosen);
            }
            PickerKey::Up => self.list.select(selected.saturating_sub(1)),
            PickerKey::Down => self.list.select(selected + 1),
            PickerKey::PageUp => self.list.select(selected.saturating_sub(self.page)),
            PickerKey::PageDown => self.list.select(selected + self.page),
            PickerKey::First => self.list.select(0),
            PickerKey::Last => self.list.select(usize::MAX),
        }
        ViewEffect::Redraw
    }

    /// Returns the hints at the bottom, the most important ones first.
    fn hints(&self) -> [Shortcut; 3] {
        let escape = if self.filter.is_empty() { "close" } else { "clear the filter" };
        [
            Shortcut::new("enter", "choose"),
            Shortcut::new("esc", escape),
            Shortcut::new("↑↓", "move"),
        ]
    }
}

impl FullScreenView for ListPicker {
    fn on_key(&mut self, key: Key) -> ViewEffect {
        if let Some(meaning) = PickerKey::of(key) {
            return self.on_meaning(meaning);
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
        let layout = PickerLayout::new(size);
        self.page = layout.list_rows.max(1);
        let hints = self.hints();
        let head = PickerHead {
            title: &self.title,
            noun: &self.noun,
            filter: &self.filter,
            hints: &hints,
        };
        picker_frame(&layout, &head, &mut self.list)
    }
}
