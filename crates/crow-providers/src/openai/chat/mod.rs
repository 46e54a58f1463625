//! Chat Completions, `POST …/chat/completions`, as implemented by `OpenAI`, `OpenRouter`, `DeepSeek`, llama.cpp,
//! `vLLM`, Ollama, LM Studio and many more.

mod decoder;
mod encode;
mod reply;

pub(crate) use encode::ChatCodec;
pub use encode::ChatVariant;
