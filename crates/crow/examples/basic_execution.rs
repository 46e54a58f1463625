//! Runs one task: what the agent knows, how much of it the model is sent, and the events of the run as they come.
//!
//! Try it:
//! `ANTHROPIC_API_KEY=… cargo run -p crow --example basic_execution -- anthropic/claude-sonnet-4-5 "tell me a joke"`
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::{error::Error, sync::Arc};

use crow::{
    prelude::*,
    serde_json::json,
    tokio::{self, sync::mpsc},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, model, task] = &args[..] else {
        return Err("usage: basic_execution MODEL TASK".into());
    };
    // 1) The model, as `provider/name`. Its key is taken from the environment of the process.
    let models = crow::app::product::models(&ProcessEnvironment::from_process(), &[])?;
    let model = models.resolve(&model.parse()?).await?;

    // 2) What the agent knows. The model reads it as lines `label: value`: all of it once, then what changes.
    let environment = Environment::new(json!({"state": "initial"}))?;

    // 3) What the model is sent: at most 4,000 tokens. Here, four bytes of text count as one token.
    let context = ContextManager::new(environment, 4_000, "You are a helpful assistant.")
        .with_text_counter(|text| text.len() as u64 / 4);

    // 4) The agent. It has no tools: `weather_tool` adds one.
    let executor = AgentExecutor::new(context, ToolRegistry::new(), model, AgentConfig::default());

    // 5) The run. The channel holds 32 events: an agent that is ahead of its reader waits.
    let (sender, events) = mpsc::channel(32);
    let (outcome, ()) = tokio::join!(executor.execute(task, sender), print_events(events));
    println!("The run used {} tokens.", outcome?.usage.total());
    Ok(())
}

/// Prints the events of a run until the channel is closed at its end.
async fn print_events(mut events: mpsc::Receiver<Arc<Envelope>>) {
    while let Some(event) = events.recv().await {
        match &event.event {
            AgentEvent::TurnStart { turn } => println!("Turn {turn} begins."),
            AgentEvent::TextDelta { delta, .. } => print!("{delta}"),
            AgentEvent::CallStart { title, .. } => println!("\nThe agent calls {title}."),
            AgentEvent::RunEnd { result: RunOutcome::NeedsInput, .. } => {
                println!("\nThe agent has answered.");
            }
            AgentEvent::RunEnd { result, .. } => println!("\nThe run ended: {result:?}."),
            _ => {} // there are about forty kinds of events
        }
    }
}
