//! What holds commands back: where they run, what they see, and what they may change.
//!
//! Decisions of a policy are about what a command says; here the kernel decides about what it does. One module for each
//! system; elsewhere there is none, and that is told.

mod config;
mod git;
mod hosts;
#[cfg(target_os = "linux")]
mod linux;
mod nested;
mod private;
mod protected;
#[cfg(target_os = "linux")]
mod proxy;
#[expect(clippy::module_inception, reason = "the file is named after the type in it")]
mod sandbox;

pub use config::{Network, ProcessLimits, SandboxConfig, SandboxProfile};
pub use hosts::{AllowedHosts, HostPattern, HostPatternError};
pub use sandbox::Sandbox;

pub(crate) use sandbox::{Confined, ConfinedEnd, Launch};
