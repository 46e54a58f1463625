//! The format Anthropic Messages, which llama.cpp and several vendors implement as well.

mod body;
mod codec;
mod decoder;
mod event;
mod message;
mod parts;
#[cfg(test)]
mod tests;
mod thinking;
mod wire_ids;

pub(crate) use codec::AnthropicCodec;
