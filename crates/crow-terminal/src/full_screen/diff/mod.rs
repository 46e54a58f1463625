//! The view of a diff: unified or side by side.

mod diff_entries;
mod diff_rows;
mod diff_source;
mod diff_view;

pub(crate) use diff_view::DiffView;
