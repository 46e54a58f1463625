//! Tasks, and the forms in which they are read.

mod error;
mod eval_task;
mod exercism;
mod harness_bench;
mod human_eval;
mod selection;
mod task_file;
mod task_folder;
mod task_set;

pub use error::TaskError;
pub use eval_task::{EvalTask, TaskHash, TaskLimits};
pub use harness_bench::HARNESS_BENCH;
pub use selection::{TaskSelection, TaskSelectionError};
pub use task_file::TASK_FILE;
pub use task_set::TaskSet;
