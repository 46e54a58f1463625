//! A model that plays a script, in process and without network.

mod model;
mod play;
mod requests;

pub use model::{ScriptedModel, ScriptedModels};
pub use play::{Play, call, malformed_call, reply, text, thinking};
pub use requests::{SeenRequest, SeenToolChoice};
