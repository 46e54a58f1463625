//! Chat Completions, `POST …/chat/completions`, as implemented by `OpenAI`, `OpenRouter`, `DeepSeek`, llama.cpp,
//! `vLLM`, Ollama, LM Studio and many more.

mod calls;
mod decoder;
mod encode;
mod quick;
mod reasoning;
mod reply;
mod variant;

pub(crate) use encode::ChatCodec;
pub use variant::ChatVariant;
