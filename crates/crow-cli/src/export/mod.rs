//! A session as a document for people.

mod markdown;
mod write;

pub(crate) use markdown::to_markdown;
pub(crate) use write::write;
