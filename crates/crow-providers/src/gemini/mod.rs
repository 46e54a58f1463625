//! Gemini's `streamGenerateContent`.

mod body;
mod chunk;
mod codec;
mod content;
mod decoder;
mod schema;
#[cfg(test)]
mod tests;
mod thinking;

pub(crate) use codec::GeminiCodec;
