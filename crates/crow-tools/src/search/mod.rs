//! Finding files: by content (`grep`) and by name (`glob`), in process.

mod files;
mod glob;
mod grep;
mod search_deadline;
mod walk;
mod withheld_files;

pub(crate) use glob::Glob;
pub(crate) use grep::Grep;
pub(crate) use walk::walker;
pub(crate) use withheld_files::WithheldFiles;
