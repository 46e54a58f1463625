//! The checks of a run, and the files with which each of them passed.
//!
//! A check is fresh if it passed with the files as they are now, as identified by a `FilesId`; otherwise it is stale
//! and runs again. Work is verified only if all checks are fresh with the same files.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crow_core::{
    event::{CheckReport, CheckRun},
    ids::FilesId,
    tool::ToolContext,
};

use super::{
    Check,
    run::{CheckExecution, CheckSkipReason},
};

/// Number of passes over the checks: a second one if some of them changed files.
const ROUNDS: usize = 2;
/// Most bytes of output of failed checks that the model is shown, in total.
const MOST_OUTPUT: usize = 8 * 1024;

/// The checks of a run, shared by all its agents: what passed for one of them is fresh for the others. Cheap to
/// clone.
#[derive(Debug, Clone, Default)]
pub struct Checks(Arc<ChecksState>);

#[derive(Debug, Default)]
struct ChecksState {
    checks: Vec<Check>,
    /// Files with which each check passed last, by its index in the list.
    passed: Mutex<BTreeMap<usize, FilesId>>,
}

/// Result of running the checks.
#[derive(Debug)]
pub(crate) enum CheckOutcome {
    /// No check failed; the report says if the work is verified.
    Passed(CheckReport),
    /// Some failed; the text tells the model which ones, and why.
    Failed(CheckReport, String),
    /// The call was cancelled.
    Cancelled,
}

/// State of one run of the checks.
struct Pass<'a> {
    shared: &'a ChecksState,
    ctx: &'a ToolContext,
    ran: Vec<Option<CheckExecution>>,
    /// Identity of the files when they were last read, or the error of reading them.
    files: Result<FilesId, String>,
    /// Names of the checks that changed files in this round.
    changers: Vec<&'a str>,
}

impl Checks {
    /// Makes a list of checks, none of which has passed yet.
    pub fn new(checks: impl IntoIterator<Item = Check>) -> Self {
        Self(Arc::new(ChecksState {
            checks: checks.into_iter().collect(),
            passed: Mutex::default(),
        }))
    }

    /// Returns true if there are no checks.
    pub fn is_empty(&self) -> bool {
        self.0.checks.is_empty()
    }

    /// Returns the checks.
    pub fn iter(&self) -> impl Iterator<Item = &Check> {
        self.0.checks.iter()
    }

    /// Runs the stale checks in order. A failure does not stop the others, so that the model learns of all failures
    /// at once; a check that exceeds its time limit does.
    ///
    /// A check that changes files makes itself and those before it stale: they are run once more. A check that
    /// changes files each time it runs never becomes fresh, and leaves the work unverified.
    pub(crate) async fn run_stale(&self, ctx: &ToolContext) -> CheckOutcome {
        let shared = self.0.as_ref();
        if shared.checks.is_empty() {
            return CheckOutcome::Passed(CheckReport::unverified(
                Vec::new(),
                "no checks are configured",
            ));
        }
        let ran = shared.checks.iter().map(|_| None).collect();
        let files = files(ctx).await;
        let mut pass = Pass { shared, ctx, ran, files, changers: Vec::new() };
        // A second round runs only if files changed during the first.
        for _ in 0..ROUNDS {
            match pass.round().await {
                Ok(()) => {}
                Err(CheckSkipReason::Cancelled) => return CheckOutcome::Cancelled,
                Err(CheckSkipReason::ReadOnly) => {
                    let reason = "checks are not run in read-only mode";
                    return CheckOutcome::Passed(CheckReport::unverified(pass.runs(), reason));
                }
            }
            if let Some(text) = pass.failures() {
                return CheckOutcome::Failed(CheckReport::failed(pass.runs()), text);
            }
            match &pass.files {
                Ok(files) if pass.all_fresh(files) => {
                    return CheckOutcome::Passed(CheckReport::verified(pass.runs(), files.clone()));
                }
                Ok(_) => {}
                Err(error) => {
                    let reason =
                        format!("the checks passed, but it is unknown with which files: {error}");
                    return CheckOutcome::Passed(CheckReport::unverified(pass.runs(), reason));
                }
            }
        }
        let reason = format!(
            "the checks passed, but files changed each time while they ran, so that they did not see the files as they are now: {}",
            pass.changers.join(", ")
        );
        CheckOutcome::Passed(CheckReport::unverified(pass.runs(), reason))
    }
}

impl ChecksState {
    fn passed(&self) -> MutexGuard<'_, BTreeMap<usize, FilesId>> {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass<'_> {
    /// Runs the stale checks once.
    async fn round(&mut self) -> Result<(), CheckSkipReason> {
        self.changers.clear();
        for (index, check) in self.shared.checks.iter().enumerate() {
            if self.is_fresh(index) {
                continue;
            }
            let execution = check.run(self.ctx).await?;
            let after = files(self.ctx).await;
            let changed = self.files != after;
            self.files = after;
            {
                let mut passed = self.shared.passed();
                match &self.files {
                    Ok(files) if execution.run.passed() && !changed => {
                        passed.insert(index, files.clone())
                    }
                    Ok(_) | Err(_) => passed.remove(&index),
                };
            }
            if changed {
                self.changers.push(&check.name);
            }
            let timed_out = execution.timed_out;
            if let Some(slot) = self.ran.get_mut(index) {
                *slot = Some(execution);
            }
            if timed_out {
                break;
            }
        }
        Ok(())
    }

    fn is_fresh(&self, index: usize) -> bool {
        self.files.as_ref().is_ok_and(|files| self.shared.passed().get(&index) == Some(files))
    }

    fn all_fresh(&self, files: &FilesId) -> bool {
        let passed = self.shared.passed();
        (0..self.shared.checks.len()).all(|index| passed.get(&index) == Some(files))
    }

    /// Returns the record of each check that ran or is fresh.
    fn runs(&self) -> Vec<CheckRun> {
        let all = self.shared.checks.iter().zip(&self.ran).enumerate();
        let runs = all.filter_map(|(index, (check, execution))| match execution {
            Some(execution) => Some(execution.run.clone()),
            None => self.is_fresh(index).then(|| CheckRun { fresh: true, ..check.passed() }),
        });
        runs.collect()
    }

    /// Describes the failures, if any. The text contains nothing that varies from run to run, so that a repeated
    /// failure is recognised as the same.
    fn failures(&self) -> Option<String> {
        let failed: Vec<&CheckExecution> =
            self.ran.iter().flatten().filter(|execution| !execution.run.passed()).collect();
        if failed.is_empty() {
            return None;
        }
        let share = MOST_OUTPUT / failed.len();
        let mut text = format!(
            "The task is not complete: {} of {} checks failed.",
            failed.len(),
            self.shared.checks.len()
        );
        for CheckExecution { run: CheckRun { name, command, error, .. }, output, .. } in failed {
            let error = error.as_deref().expect("invariant: a failed check has an error");
            let output = if output.is_empty() { "(no output)" } else { end_of(output, share) };
            let _ = write!(text, "\n\n{name}: `{command}` failed: {error}\n{output}");
        }
        text.push_str(
            "\n\nRepair what fails, then call task_complete again. If it cannot pass here, whatever you do, end your turn with a text that says why.",
        );
        Some(text)
    }
}

/// Returns the end of a text, at most `max_bytes` of it.
fn end_of(text: &str, max_bytes: usize) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(max_bytes));
    &text[start..]
}

async fn files(ctx: &ToolContext) -> Result<FilesId, String> {
    ctx.files().await.map_err(|error| error.to_string())
}
