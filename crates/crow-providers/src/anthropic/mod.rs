//! The format Anthropic Messages, which llama.cpp and several vendors implement as well.

mod codec;
mod decoder;
mod message;
#[cfg(test)]
mod tests;
mod thinking;

pub(crate) use codec::AnthropicCodec;
