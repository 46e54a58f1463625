//! What commands may do: from flags and the user's settings to the runtime's sandbox, and what people are told of it.

mod config;
mod hidden;
mod secret_places;
mod trial;

pub(crate) use config::{SandboxOptions, sandbox_config};
pub(crate) use trial::try_out;
