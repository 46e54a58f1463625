//! Keeping known secrets out of whatever is shown: results, events, the log, messages.
//!
//! What is written to files and sent by tools is not touched: redaction is about what is seen. A model sees
//! [`Redactor::MARK`] in place of a secret and may write it back; a call that would do so is refused by the runtime.

mod event;
mod forms;
mod redactor;
mod stream;
#[cfg(test)]
mod tests;

pub use redactor::Redactor;
pub use stream::RedactedStream;
