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
mod private;
mod program;
mod proxy;
#[expect(clippy::module_inception, reason = "the file is named after the type in it")]
mod sandbox;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use macos as system;

pub use config::{Network, ProcessLimits, SandboxConfig, SandboxProfile, UserGit};
pub use hosts::{AllowedHosts, HostPattern, HostPatternError};
pub use sandbox::Sandbox;

/// Lets SIGINT, SIGQUIT and SIGTERM end this process and what it starts, where whoever started it ignored them: shells
/// without job control and some build services do so. SIGHUP stays ignored, as `nohup` wants it. Handlers stay.
///
/// It is for a program to decide, which calls this at its start. Commands in a sandbox never ignore these signals. Does
/// nothing where the system is not Linux.
pub fn reset_ignored_signals() {
    #[cfg(target_os = "linux")]
    system::reset_ignored_signals();
}

pub(crate) use program::Program;
pub(crate) use sandbox::{CommandKind, Confined, ConfinedEnd, Launch, Refusals};
