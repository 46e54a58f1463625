//! The sandbox of commands: its configuration from flags and the user's settings, and a trial that reports its
//! containment.

mod config;
mod hidden;
mod secret_paths;
mod trial;

pub(crate) use config::{SandboxOptions, sandbox_config};
pub(crate) use trial::probe_containment;
