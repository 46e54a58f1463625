//! Redaction: keeps known secrets out of results, events, the log and messages.
//!
//! Data that tools write to files or send is not changed: redaction is about what is shown. A model sees
//! [`Redactor::MARK`] instead of a secret and may write it back; the runtime refuses a call that contains it.

mod event;
mod redactor;
#[cfg(test)]
mod tests;

pub use redactor::{RedactedStream, Redactor};
