//! Process execution: each process in its own group, with bounded output, and none left behind.

mod command_process;
mod detached;
mod environment;
mod group;
mod job;
mod jobs;
mod live_output;
mod output;
mod output_ring;
#[cfg(target_os = "linux")]
mod pidfd_child;
mod piped_process;
mod runner;
mod running_process;
mod spill;

pub use detached::start_detached;
pub use environment::ChildEnvironment;
pub use runner::ProcessRunner;

pub use jobs::{AgentJobs, job_number};
