//! Running processes: each in its own group, with bounded output, and none left behind.

mod child;
mod environment;
#[cfg(target_os = "linux")]
mod given;
mod group;
mod guard;
mod job;
mod jobs;
mod live;
mod orphans;
mod output;
mod piped;
mod ring;
mod runner;
mod running;
mod spill;
mod system;

pub use environment::ChildEnvironment;
pub use orphans::adopt_orphans;
pub use runner::ProcessRunner;

pub use jobs::{AgentJobs, job_number};
#[cfg(target_os = "linux")]
pub(crate) use orphans::OwnProcess;
