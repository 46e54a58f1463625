//! Asks a model one question and prints the answer as it comes.
//!
//! `cargo run -p crow-providers --example ask` asks a recorded model. With an address, a model and a question it asks a server
//! that speaks Chat Completions, such as llama.cpp, vLLM or Ollama:
//! `cargo run -p crow-providers --example ask -- http://127.0.0.1:8080/v1 MODEL "What is a crow?"`

use std::{error::Error, io, io::Write as _, sync::Arc};

use crow_core::{
    ids::{MessageId, SessionId},
    message::{Block, Message, UserMessage},
    model::{
        Abilities, ModelConfig, ModelEvent, ModelInfo, ModelRef, ModelRequest, Provider,
        ToolCallFormat, ToolChoice,
    },
};
use crow_providers::{
    ChatVariant, Dialect, Endpoint, HttpClient, HttpProvider, Proxies, ReplayProvider,
};
use futures_util::StreamExt as _;

const RECORDING: &str = r#"{
    "format": "crow-replay", "version": 1, "model": "recorded", "pace_ms": 20,
    "replies": [{"blocks": [{"text": "A crow is a large black bird that uses tools."}],
                 "usage": {"input_tokens": 12, "output_tokens": 11}}]
}"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (provider, model, question): (Box<dyn Provider>, _, _) = match &args[..] {
        [] => {
            let recorded = ReplayProvider::from_json(RECORDING)?;
            let model = recorded.model();
            (Box::new(recorded), model, "What is a crow?")
        }
        [address, name, question] => (Box::new(server(address)?), info(name), question),
        _ => return Err("usage: ask [ADDRESS MODEL QUESTION]".into()),
    };
    let mut conversation = provider.conversation(&model, &SessionId::new("example"));
    let content = vec![Block::text(question)];
    let messages = [Arc::new(Message::User(UserMessage { id: MessageId::new("m1"), content }))];
    let mut stream = conversation.stream(ModelRequest {
        system: "Answer in one sentence.",
        tools: &[],
        messages: &messages,
        config: &ModelConfig::default(),
        tool_choice: ToolChoice::Auto,
    });
    let mut out = io::stdout().lock();
    while let Some(event) = stream.next().await {
        match event? {
            ModelEvent::TextDelta(text) => write!(out, "{text}")?,
            // What came before is void.
            ModelEvent::Retrying(retry) => writeln!(out, "\n[asking again: {}]", retry.error)?,
            ModelEvent::Waiting(wait) => writeln!(out, "\n[waiting: {}]", wait.reason)?,
            ModelEvent::Warning(text) => writeln!(out, "\n[warning: {text}]")?,
            ModelEvent::Completed(reply) => writeln!(out, "\n[{} tokens]", reply.usage.total())?,
            ModelEvent::ThinkingDelta(_)
            | ModelEvent::CallStarted { .. }
            | ModelEvent::Accepted { .. } => {}
        }
        out.flush()?;
    }
    Ok(())
}

fn server(address: &str) -> Result<HttpProvider, Box<dyn Error>> {
    let endpoint = Endpoint {
        provider: "local".to_owned(),
        dialect: Dialect::OpenAiChat(ChatVariant::COMPATIBLE),
        base_url: address.to_owned(),
        key: None,
        headers: Vec::new(),
    };
    // Nothing is looked up: the address is called without a proxy.
    Ok(HttpProvider::new(endpoint, HttpClient::new(Proxies::from_lookup(|_| None)))?)
}

fn info(name: &str) -> ModelInfo {
    ModelInfo {
        reference: ModelRef { provider: "local".to_owned(), model: name.to_owned() },
        context_window: None,
        max_output_tokens: None,
        abilities: Abilities { tools: true, vision: false, thinking: false },
        tool_calls: Some(ToolCallFormat::Native),
    }
}
