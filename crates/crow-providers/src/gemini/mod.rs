//! Gemini's `streamGenerateContent`.

mod codec;
mod content;
mod decoder;
#[cfg(test)]
mod tests;

pub(crate) use codec::GeminiCodec;
