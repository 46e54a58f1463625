//! The sandbox of commands: its configuration from the user's settings, and a trial that reports its
//! containment.

mod config;
mod hidden;
mod secret_paths;
mod trial;

pub(crate) use config::sandbox_folder;
pub use config::{SandboxSettings, sandbox_settings};
pub use trial::probe_containment;
