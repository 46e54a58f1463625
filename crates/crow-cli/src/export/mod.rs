//! Export of a session as a Markdown document.

mod markdown;
mod write;

pub(crate) use markdown::to_markdown;
pub(crate) use write::write;
