//! A list to choose from, filtered by typing.

mod item_list;
mod list_picker;
mod picker_layout;
mod picker_rows;

pub use item_list::ListItem;
pub use list_picker::{ActionKeyError, ListPicker};
