//! What holds commands back: where they run, what they see, and what they may change.
//!
//! Decisions of a policy are about what a command says; here the kernel decides about what it does. There is one module for
//! each system, and all of them have a ground and a confinement with the same methods: `lay`, `containment`, `confine` and so
//! on. The one for macOS is also that of systems without any: it finds nothing there, and says so.

mod autorun;
mod config;
mod hosts;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(not(target_os = "linux"), test))]
mod macos;
mod private_folder;
mod program;
mod proxy;
#[expect(clippy::module_inception, reason = "the file is named after the type in it")]
mod sandbox;
mod signals;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use macos as system;

pub use config::{Network, ProcessLimits, SandboxConfig, SandboxProfile, UserGit};
pub use hosts::{AllowedHosts, HostPattern, HostPatternError};
pub use sandbox::Sandbox;
pub use signals::reset_ignored_signals;

pub(crate) use program::Program;
pub(crate) use sandbox::{
    CommandKind, CommandLaunch, Refusals, SandboxedCommand, SandboxedCommandEnd,
};
