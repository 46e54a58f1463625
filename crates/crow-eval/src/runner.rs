//! The course of a run: which trials are left, several at a time, until they are done or the budget is used up.

use std::{
    cell::Cell,
    io,
    path::{Path, PathBuf},
    time::Instant,
};

use futures_util::{StreamExt as _, stream};
use tempfile::TempDir;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::{
    plan::{EvalBudget, EvalPlan},
    run_folder::{RunFolder, RunFolderError, SCRATCH_NAME, StoredRun},
    trial::{
        TaskTree, TrialEnd, TrialFolders, TrialHost, TrialKey, TrialOutcome, TrialRecord,
        TrialUsage, run_trial,
    },
};

/// Error that ends a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// The folder of the run cannot be used.
    #[error(transparent)]
    Folder(#[from] RunFolderError),
    /// The folders of a trial cannot be made or written.
    #[error("the trial of {task} cannot be carried out: {source}")]
    Trial {
        /// The task.
        task: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A temporary folder cannot be made.
    #[error("a temporary folder cannot be made in {}: {source}", .folder.display())]
    Temporary {
        /// The folder in which it was to be made.
        folder: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// There is a limit on money, and the price of a trial is unknown.
    #[error("the cost of the trial of {task} is unknown, so that a limit on money cannot be kept")]
    UnknownCost {
        /// The task.
        task: String,
    },
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvalEnd {
    /// Every trial has a result.
    Complete,
    /// The time is used up; the trials that are left can be run later.
    OutOfTime,
    /// The money is used up; the trials that are left can be run later.
    OutOfMoney,
    /// It was cancelled.
    Cancelled,
}

/// What a run reports while it goes on.
#[derive(Debug, Clone, Copy)]
pub enum EvalProgress<'a> {
    /// It begins.
    Begun {
        /// Number of trials in total.
        trials: usize,
        /// Number of those that had a result already.
        finished: usize,
    },
    /// A trial has ended.
    TrialEnded {
        /// Its result.
        record: &'a TrialRecord,
        /// Number of trials with a result.
        finished: usize,
        /// Number of trials in total.
        trials: usize,
    },
}

/// Runs the trials of a plan that have no result yet. An interrupted run continues with the same arguments.
///
/// # Errors
/// Fails if a folder cannot be made or written, or a limit on money cannot be kept. Failures of tasks and programs are
/// results of trials.
pub async fn run_trials(
    plan: &EvalPlan,
    host: &TrialHost,
    folder: &mut RunFolder,
    mut progress: impl FnMut(EvalProgress<'_>),
    cancellation: &CancellationToken,
) -> Result<EvalEnd, EvalError> {
    let all = plan.trials();
    let trials = all.len();
    let left: Vec<_> = all.into_iter().filter(|(_, key)| !folder.is_finished(key)).collect();
    let mut finished = trials - left.len();
    progress(EvalProgress::Begun { trials, finished });
    let scratch = scratch_folder(host, folder)?;
    let scratch_path = scratch.path().to_owned();
    let run_path = folder.path().to_owned();
    let budget = BudgetWatch::new(plan.budget, folder.run());
    let trees: Vec<OnceCell<TaskTree>> = plan.tasks.iter().map(|_| OnceCell::new()).collect();
    let course = RunCourse {
        plan,
        host,
        trees: &trees,
        scratch: &scratch_path,
        run: &run_path,
        cancellation,
    };
    let (course, budget) = (&course, &budget);
    let started =
        stream::iter(left.into_iter().enumerate()).map(|(number, (index, key))| async move {
            if cancellation.is_cancelled() || budget.is_used_up() {
                return Ok(None);
            }
            let task = key.task.clone();
            let end = course.run(number, index, key).await;
            end.map_err(|source| EvalError::Trial { task, source })
        });
    let mut ended = started.buffer_unordered(plan.jobs.get());
    while let Some(end) = ended.next().await {
        let Some(record) = end? else { continue };
        folder.append(record.clone())?;
        budget.add(&record)?;
        finished += 1;
        progress(EvalProgress::TrialEnded { record: &record, finished, trials });
    }
    drop(ended);
    if let Err(error) = scratch.close() {
        tracing::warn!(%error, "the temporary folder of the run stays");
    } else {
        folder.forget_scratch();
    }
    Ok(match budget.used_up.get() {
        _ if finished == trials => EvalEnd::Complete,
        Some(end) => end,
        None => EvalEnd::Cancelled,
    })
}

fn scratch_folder(host: &TrialHost, folder: &RunFolder) -> Result<TempDir, EvalError> {
    let parent = host.temporary();
    let error = |source| EvalError::Temporary { folder: parent.to_owned(), source };
    let parent = parent.canonicalize().map_err(error)?;
    let scratch = tempfile::Builder::new().prefix(SCRATCH_NAME).tempdir_in(&parent);
    let scratch = scratch.map_err(|source| EvalError::Temporary { folder: parent, source })?;
    folder.note_scratch(scratch.path())?;
    Ok(scratch)
}

/// What the trials of a run share.
struct RunCourse<'a> {
    plan: &'a EvalPlan,
    host: &'a TrialHost,
    trees: &'a [OnceCell<TaskTree>],
    scratch: &'a Path,
    run: &'a Path,
    cancellation: &'a CancellationToken,
}

impl RunCourse<'_> {
    /// Runs a trial. Returns `None` if it was cancelled.
    async fn run(
        &self,
        number: usize,
        index: usize,
        key: TrialKey,
    ) -> io::Result<Option<TrialRecord>> {
        let task = &self.plan.tasks[index];
        // The first trial of a task makes its files; the others wait for them.
        let make = || async {
            let folder = self.scratch.join(format!("task-{index}"));
            TaskTree::make(task, &folder, self.host, self.cancellation).await.ok_or(())
        };
        let Ok(tree) = self.trees[index].get_or_try_init(make).await else { return Ok(None) };
        let tree = match tree {
            TaskTree::Ready(tree) => tree,
            TaskTree::AlwaysPasses => {
                let message = "the check passes on the files that the program is given";
                return Ok(Some(not_run(key, TrialOutcome::AlwaysPasses, message)));
            }
            TaskTree::SetupFailed(reason) => {
                return Ok(Some(not_run(key, TrialOutcome::SetupFailed, reason)));
            }
        };
        let folders = TrialFolders {
            tree,
            scratch: self.scratch.join(format!("trial-{number}")),
            run: self.run,
            // Solutions, checks, and what other trials did.
            hidden: vec![task.hidden.clone(), self.run.to_owned()],
        };
        let program = &self.plan.program;
        match run_trial(&key, task, program, folders, self.host, self.cancellation).await? {
            TrialEnd::Done(record) => Ok(Some(*record)),
            TrialEnd::Cancelled => Ok(None),
        }
    }
}

/// Returns the record of a trial that did not start.
fn not_run(key: TrialKey, outcome: TrialOutcome, message: &str) -> TrialRecord {
    TrialRecord {
        key,
        outcome,
        exit_code: None,
        timed_out: false,
        used_model: None,
        usage: TrialUsage::default(),
        seconds: 0.0,
        message: message.to_owned(),
        log: String::new(),
        started: jiff::Timestamp::now(),
    }
}

/// Watches what a run uses. Used by one task only.
struct BudgetWatch {
    budget: EvalBudget,
    began: Instant,
    spent: Cell<f64>,
    used_up: Cell<Option<EvalEnd>>,
}

impl BudgetWatch {
    fn new(budget: EvalBudget, run: &StoredRun) -> Self {
        let spent = Cell::new(run.cost().0);
        Self { budget, began: Instant::now(), spent, used_up: Cell::new(None) }
    }

    /// Returns true if no further trial may begin.
    fn is_used_up(&self) -> bool {
        let end = if self.budget.time.is_some_and(|limit| self.began.elapsed() >= limit) {
            Some(EvalEnd::OutOfTime)
        } else if self.budget.money.is_some_and(|limit| self.spent.get() >= limit) {
            Some(EvalEnd::OutOfMoney)
        } else {
            None
        };
        if self.used_up.get().is_none() {
            self.used_up.set(end);
        }
        self.used_up.get().is_some()
    }

    fn add(&self, record: &TrialRecord) -> Result<(), EvalError> {
        match record.usage.cost_usd {
            Some(cost) => self.spent.set(self.spent.get() + cost),
            None if self.budget.money.is_some() && record.outcome.is_counted() => {
                return Err(EvalError::UnknownCost { task: record.key.task.clone() });
            }
            None => {}
        }
        Ok(())
    }
}
