//! A model server on loopback that sends the vendors' bytes, fails on demand and checks its requests.
//!
//! It answers requests one by one from a [`Script`], in the dialect of the request's path. It does not depend on
//! providers, agents or tools: it demands of a request what the vendors' services demand.

pub mod check;

mod chunk;
mod connection;
mod fault;
mod gate;
mod model_server;
mod options;
mod prompt_cache;
mod request;
mod response_options;
mod script;
mod state;

pub use chunk::{BodyChunk, BodyEnd};
pub use fault::{Fault, SseLineEnd};
pub use gate::StreamGate;
pub use model_server::{ModelServer, refused_base_url};
pub use options::{Delivery, ServerOptions, UsageSource};
pub use request::{AnswerState, RecordedAnswer, RecordedRequest};
pub use script::{Responder, Script, ScriptStep};
