//! Processes, and what holds them.
//!
//! [`ProcessRunner`] starts commands in groups of their own, with bounded output, and leaves none behind. A [`Sandbox`] decides
//! what they see and may change: by namespaces, Landlock and seccomp on Linux, by a profile of Seatbelt on macOS.

mod orphans;
mod process;
mod sandbox;

pub use orphans::adopt_orphans;
pub use process::{AgentJobs, ChildEnvironment, ProcessRunner, job_number};
pub use sandbox::{
    AllowedHosts, HostPattern, HostPatternError, Network, ProcessLimits, Sandbox, SandboxConfig,
    SandboxProfile, UserGit, reset_ignored_signals,
};
