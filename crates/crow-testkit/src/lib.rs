//! Test kit of Crow: test doubles of model servers, models, hosts and processes for tests and benchmarks.
//!
//! [`wire`] renders scripted replies as the bytes of four vendor dialects; [`server`] serves them over loopback, breaks
//! them on demand, and checks every request it sees. [`scripted`] replaces a model without any bytes, [`harness`] runs
//! an agent on it, [`tools`] calls one tool, and [`host`] replaces the program that adapters talk to. [`sample`] has the
//! events of complete runs, [`session_log`] builds the logs of sessions, [`telemetry`] collects and checks what is sent to
//! OpenTelemetry. A [`NamedPipe`] synchronizes a test with a command.
//!
//! ```
//! use crow_testkit::{WireDialect, Fault, ModelServer, ScriptedReply, VendorError};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), crow_testkit::Violations> {
//! let server = ModelServer::start([
//!     ScriptedReply::new().text("I look.").call("call_1", "read_file", &json!({"path": "a"})).into(),
//!     ScriptedReply::new().text("Cut in").with(Fault::ErrorAfter { events: 3, error: VendorError::Overloaded }),
//! ])
//! .await;
//! let base_url = server.base_url(WireDialect::AnthropicMessages);
//! // ... the client under test talks to `base_url` ...
//! # assert!(base_url.starts_with("http://127.0.0.1:"));
//! let requests = server.finish().await?;
//! # assert!(requests.is_empty());
//! # Ok(())
//! # }
//! ```

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test kit fails loudly"
)]

mod clock;
pub mod harness;
pub mod host;
mod http;
mod named_pipe;
pub mod processes;
pub mod sample;
pub mod scripted;
pub mod server;
pub mod session_log;
pub mod telemetry;
pub mod tools;
mod wait;
pub mod wire;

pub use clock::TokioClock;
pub use named_pipe::NamedPipe;
pub use server::check::{PrefixCheck, Rule, ServerChecks, Violation, Violations, check_body};
pub use server::{
    AnswerState, BodyChunk, BodyEnd, Delivery, Fault, ModelServer, RecordedAnswer, RecordedRequest,
    Script, ScriptStep, ServerOptions, SseLineEnd, StreamGate, UsageSource, refused_base_url,
};
pub use wait::wait_until;
pub use wire::{
    ChatFlavour, DeltaSize, ReplyUsage, ScriptedBlock, ScriptedReply, ScriptedStop, VendorError,
    WireDialect,
};
