//! A model that says what the test wrote, in this process and without bytes.

mod model;
mod play;
mod requests;

pub use model::{ScriptedModel, ScriptedModels};
pub use play::{Play, call, malformed_call, reply, text, thinking};
pub use requests::{SeenRequest, SeenToolChoice};
