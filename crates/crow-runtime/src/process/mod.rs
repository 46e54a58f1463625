//! Running processes: each in its own group, with bounded output, and none left behind.

mod group;
mod output;
mod runner;

pub use runner::ProcessRunner;
