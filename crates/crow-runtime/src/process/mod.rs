//! Running processes: each in its own group, with bounded output, and none left behind.

mod group;
mod job;
mod jobs;
mod output;
mod ring;
mod runner;
mod running;
mod spill;

pub use runner::ProcessRunner;

pub(crate) use jobs::AgentJobs;
