//! Finding files: by content (`grep`) and by name (`glob`), in process.

mod glob;
mod grep;
mod walk;

pub(crate) use glob::Glob;
pub(crate) use grep::Grep;
pub(crate) use walk::{WithheldFiles, walker};
