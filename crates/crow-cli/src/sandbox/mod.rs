//! The sandbox of commands: its configuration from flags and the user's settings, and a trial that reports its
//! containment.

mod config;
mod hidden;
mod secret_places;
mod trial;

pub(crate) use config::{SandboxOptions, sandbox_config};
pub(crate) use trial::try_out;
