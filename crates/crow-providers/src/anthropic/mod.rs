//! Anthropic Messages, which llama.cpp and several vendors speak as well.

mod body;
mod codec;
mod decoder;
mod event;
mod message;
mod parts;
mod thinking;
mod wire_ids;

pub(crate) use codec::AnthropicCodec;
