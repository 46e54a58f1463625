//! Gemini's `streamGenerateContent`.

mod body;
mod chunk;
mod codec;
mod content;
mod decoder;
mod schema;
mod thinking;

pub(crate) use codec::GeminiCodec;
