//! The two wire formats of `OpenAI`: Responses, and Chat Completions with its many implementations.
//!
//! Both decode leniently from JSON values: unknown events and fields are skipped, and what servers leave out is filled in.

mod chat;
mod reply;
mod request;
mod responses;

#[cfg(test)]
mod testing;

pub(crate) use chat::ChatCodec;
pub use chat::ChatVariant;
pub(crate) use responses::ResponsesCodec;
