//! One trial: a program works on a task in a folder of its own, and a check judges the result.

mod host;
mod program;
mod record;
mod task_commands;
mod task_tree;
mod trial_home;
mod trial_run;

pub use host::{TrialHost, TrialHostError};
pub use program::TestedProgram;
pub use record::{AgentVariant, TrialKey, TrialOutcome, TrialRecord, TrialUsage};
pub(crate) use task_tree::TaskTree;
pub(crate) use trial_run::{TrialEnd, TrialFolders, run_trial};
