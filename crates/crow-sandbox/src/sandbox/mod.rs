//! Sandbox for commands: restricts what they can read, change and reach.
//!
//! A permission policy decides by the text of a command; here the kernel enforces limits on what it does.
//! There is one module per system, each with a platform sandbox and a confinement with the same methods:
//! `lay`, `containment`, `confine` and so on. The macOS module also serves systems without any sandbox: its
//! trial run fails there, which it reports.

mod autorun;
mod config;
mod exiting_inits;
mod link_search;
mod linked_files;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(not(target_os = "linux"), test))]
mod macos;
mod private_folder;
mod program;
mod proxy;
#[expect(clippy::module_inception, reason = "the file is named after the type in it")]
mod sandbox;
mod second_names;
mod signals;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use macos as system;

pub use autorun::{RecoveryReport, WrittenFile};
pub use config::{ProcessLimits, SandboxConfig, SandboxProfile, UserGit};
pub use link_search::{LinkGap, LinkSearch, LinkSearchConfig, LinkSearchError, LinkedPaths};
pub use sandbox::Sandbox;
pub use signals::reset_ignored_signals;

pub(crate) use program::{Program, process_end};
pub(crate) use sandbox::{
    CommandKind, CommandLaunch, CommandStreams, Refusals, SandboxedCommand, SandboxedCommandEnd,
};
