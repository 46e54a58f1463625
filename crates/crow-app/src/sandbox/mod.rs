//! The sandbox of commands: its configuration from the user's settings, and a trial that reports its
//! containment.

mod config;
mod secret_paths;
mod start_files;

pub use config::{SandboxSettings, probe_containment, sandbox_folder, sandbox_settings};
