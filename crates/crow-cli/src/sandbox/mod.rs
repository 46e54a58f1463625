//! What commands may do: from flags and the user's settings to the runtime's sandbox, and what people are told of it.

mod check;
mod config;
mod hidden;
mod secret_places;

pub(crate) use check::{doctor, try_out};
pub(crate) use config::{SandboxOptions, sandbox_config};
