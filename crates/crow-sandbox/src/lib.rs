//! Process execution and sandboxing.
//!
//! [`ProcessRunner`] starts commands in process groups of their own, with bounded output, and leaves no
//! process behind. A [`Sandbox`] decides what they can read and change: by namespaces, Landlock and seccomp
//! on Linux, by a Seatbelt profile on macOS.

mod orphans;
mod process;
mod sandbox;

pub use orphans::adopt_orphans;
pub use process::{AgentJobs, ChildEnvironment, ProcessRunner, job_number, start_detached};
pub use sandbox::{
    LinkGap, LinkSearch, LinkSearchConfig, LinkSearchError, LinkedPaths, ProcessLimits,
    RecoveryReport, Sandbox, SandboxConfig, SandboxProfile, UserGit, WrittenFile,
    reset_ignored_signals,
};
