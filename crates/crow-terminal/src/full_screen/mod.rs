//! Views that take the whole screen: lists to choose from, long texts, and diffs.
//!
//! A view is a [`FullScreenView`]: it takes keys, and lays itself out as rows. The [`FullScreenPainter`] paints the rows on
//! the alternate screen. Neither reads or writes anything.

mod diff;
mod pager;
mod painter;
mod picker;
mod plain_lines;
mod scroll_view;
#[cfg(test)]
mod tests;
mod text_field;
mod text_search;
mod view;

pub(crate) use diff::DiffView;
pub(crate) use pager::{Pager, PagerSection};
pub(crate) use painter::FullScreenPainter;
pub(crate) use picker::{ListItem, ListPicker};
pub(crate) use view::{FullScreenFrame, FullScreenView, ViewEffect};
