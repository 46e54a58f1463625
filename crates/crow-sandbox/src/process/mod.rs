//! Running processes: each in its own group, with bounded output, and none left behind.

mod child;
mod environment;
#[cfg(target_os = "linux")]
mod given;
mod group;
mod job;
mod jobs;
mod live;
mod output;
mod piped;
mod ring;
mod runner;
mod running;
mod spill;

pub use environment::ChildEnvironment;
pub use runner::ProcessRunner;

pub use jobs::{AgentJobs, job_number};
