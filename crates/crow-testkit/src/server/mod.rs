//! A model server on loopback that speaks bytes, breaks on demand and checks what it is sent.
//!
//! It answers request after request from a [`Script`], in the dialect of the request's path. It knows nothing of
//! providers, agents or tools: what it demands of a request is what the vendors' services demand.

pub mod check;

mod chunk;
mod connection;
mod fault;
mod gate;
mod http;
mod model_server;
mod options;
mod prompt_cache;
mod request;
mod script;
mod state;
mod terms;

pub use chunk::{BodyChunk, BodyEnd};
pub use fault::{Fault, SseLineEnd};
pub use gate::StreamGate;
pub use model_server::{ModelServer, refused_base_url};
pub use options::{Delivery, ServerOptions, UsageSource};
pub use request::{AnswerState, RecordedAnswer, RecordedRequest};
pub use script::{Responder, Script, ScriptStep};
