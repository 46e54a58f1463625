//! A list to choose from, filtered by typing.

mod item_list;
mod list_picker;
mod picker_layout;
mod picker_rows;

pub(crate) use item_list::ListItem;
pub(crate) use list_picker::ListPicker;
