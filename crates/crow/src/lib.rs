//! Coding agents in Rust.
//!
//! Crow is a coding agent and the framework that it is built from. This crate gathers the libraries of the framework:
//!
//! | module | content |
//! |---|---|
//! | [`core`] | messages, events, tools, permissions, and the state machines of turns and control flow: no I/O |
//! | [`context`] | what a model is sent: environment, token counting, compaction, accounting; no I/O |
//! | [`runtime`] | sessions, handles, event streams, and the pipeline that every call of an agent passes |
//! | [`agent`] | the built-in loops: base agents, compositions with reviewers, subagents |
//! | [`providers`] | models over HTTP |
//! | [`tools`] | file, search and shell tools |
//! | [`telemetry`] | spans, OpenTelemetry, statistics and reports from events |
//! | `console` | with the feature `console`: runs at a terminal, with questions to the person there |
//! | `app` | with the feature `app`: configuration, trust, keys, MCP servers, and the host of the product |
//!
//! `schemars`, `serde`, `serde_json` and `tokio` are exported in the versions that Crow uses, so that this crate can be
//! the only dependency of a program. A type that derives `Deserialize` then has `#[serde(crate = "crow::serde")]`.
//!
//! An agent is an async function that gets [`AgentInternals`](runtime::AgentInternals): it receives prompts, calls the
//! model, and has the calls of the reply carried out. Permissions, the log, undo and cancelling come with the runtime.
//! This agent answers each prompt itself:
//!
//! ```
//! use crow::prelude::*;
//!
//! async fn echo(mut agent: AgentInternals) -> Result<(), AgentError> {
//!     loop {
//!         agent.set_state(AgentState::Idle).await?;
//!         let InputMessage::UserInput { run_id, content, .. } = agent.receive().await? else { continue };
//!         let run = agent.start_run(run_id).await?;
//!         agent.add_input(InputSource::Prompt, None, content).await?;
//!         agent.end_run(run, RunOutcome::NeedsInput).await?;
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = AgentRuntime::new(RuntimeConfig::default());
//! let spec = SessionSpec::new("echo", "some/model".parse()?, "/");
//! let session = AgentSession::create(runtime.config(), spec)?;
//! let handle = runtime.spawn(session, echo);
//! let mut events = handle.subscribe();
//! handle.send_input(vec![Block::text("hello")])?;
//! while let Some(crow::runtime::ObserverItem::Event(envelope)) = events.next().await {
//!     if matches!(envelope.event, AgentEvent::RunEnd { .. }) {
//!         break;
//!     }
//! }
//! runtime.shutdown_all(std::time::Duration::from_secs(1)).await;
//! # Ok(())
//! # }
//! ```
//!
//! A loop need not be written: `examples/basic_execution.rs` runs a task with [`AgentExecutor`](agent::AgentExecutor).
//! `examples/console_agent.rs` asks a model, runs tools and talks to a person in 60 lines; `examples/coder_agent.rs`
//! handles interrupts, reasoning and replies that were cut off as well. The guide to the library in the book lists all
//! examples.

pub mod prelude;

pub use crow_agent as agent;
#[cfg(feature = "app")]
pub use crow_app as app;
#[cfg(feature = "console")]
pub use crow_console as console;
pub use crow_context as context;
pub use crow_core as core;
pub use crow_providers as providers;
pub use crow_runtime as runtime;
pub use crow_telemetry as telemetry;
pub use crow_tools as tools;
pub use schemars;
pub use serde;
pub use serde_json;
pub use tokio;
