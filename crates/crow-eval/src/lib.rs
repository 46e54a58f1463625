//! Measures agents on sets of tasks.
//!
//! A [`TaskSet`] is read from folders with `task.toml`, Exercism-style exercises, `HumanEval`-style JSON lines or
//! harness-bench. [`run_trials`] starts a program on a copy of each task's files, once per agent, model and repetition,
//! runs the task's check in the sandbox, and appends a [`TrialRecord`] to a [`RunFolder`]; an interrupted run continues
//! where it stopped. [`RunSummary`] and [`RunComparison`] turn the records into tables.
//!
//! The crate knows no terminal and no arguments, and no particular loop or provider: the program under test is a process.

mod app_errors;
mod compare;
mod folder_copy;
mod new_task;
mod plan;
mod report;
mod run_folder;
mod runner;
mod statistics;
mod task;
mod trial;

pub use compare::{CompareError, RunComparison, VariantComparison};
pub use new_task::{NewTask, NewTaskError, WrittenTask};
pub use plan::{EvalBudget, EvalPlan};
pub use report::{RunSummary, SummaryRow, UncountedTrials, html_page, text_table};
pub use run_folder::{RunFolder, RunFolderError, RunManifest, StoredRun};
pub use runner::{EvalEnd, EvalError, EvalProgress, run_trials};
pub use statistics::{ConfidenceInterval, mcnemar_exact, wilson_interval};
pub use task::{
    EvalTask, HARNESS_BENCH, TASK_FILE, TaskError, TaskHash, TaskLimits, TaskSelection,
    TaskSelectionError, TaskSet,
};
pub use trial::{
    AgentVariant, TestedProgram, TrialHost, TrialHostError, TrialKey, TrialOutcome, TrialRecord,
    TrialUsage,
};
