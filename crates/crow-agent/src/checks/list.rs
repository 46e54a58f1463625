//! The checks of a run, and with which files each of them passed.

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
    run::{CheckExecution, NotRun},
};

/// How often the checks are gone through: once more after some of them changed files.
const ROUNDS: usize = 2;
/// How much output of failed checks the model is shown in all.
const MOST_OUTPUT: usize = 8 * 1024;

/// The checks of a run, shared by all its agents: what passed for one of them is fresh for the others. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Checks(Arc<ChecksState>);

#[derive(Debug, Default)]
struct ChecksState {
    checks: Vec<Check>,
    /// With which files each passed last, by its place in the list.
    passed: Mutex<BTreeMap<usize, FilesId>>,
}

/// What going through the checks came to.
#[derive(Debug)]
pub(crate) enum CheckOutcome {
    /// None failed.
    Passed(CheckReport),
    /// Some failed; the text tells the model which, and how.
    Failed(CheckReport, String),
    /// The call was cancelled.
    Cancelled,
}

/// The checks on the way.
struct Pass<'a> {
    shared: &'a ChecksState,
    ctx: &'a ToolContext,
    ran: Vec<Option<CheckExecution>>,
    /// The files as they were seen last, or why they cannot be.
    files: Result<FilesId, String>,
    /// The checks that changed files in this round.
    changers: Vec<&'a str>,
}

impl Checks {
    /// Makes a list. None has passed yet.
    pub fn new(checks: impl IntoIterator<Item = Check>) -> Self {
        Self(Arc::new(ChecksState {
            checks: checks.into_iter().collect(),
            passed: Mutex::default(),
        }))
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.checks.is_empty()
    }

    /// Returns the checks.
    pub fn iter(&self) -> impl Iterator<Item = &Check> {
        self.0.checks.iter()
    }

    /// Runs the checks that did not pass with the files as they are, in order. All are run although one fails, so that the
    /// model learns of all failures at once; after one that ran out of time no further one is.
    ///
    /// A check that changes files makes those before it stale, and itself: they are run once more. What changes files
    /// each time it runs never becomes fresh, and nothing is verified by it.
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
        for _ in 0..ROUNDS {
            match pass.round().await {
                Ok(()) => {}
                Err(NotRun::Cancelled) => return CheckOutcome::Cancelled,
                Err(NotRun::ReadOnly) => {
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
                        format!("the checks passed, but nobody knows with which files: {error}");
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
    /// Runs what is stale.
    async fn round(&mut self) -> Result<(), NotRun> {
        self.changers.clear();
        for (place, check) in self.shared.checks.iter().enumerate() {
            if self.is_fresh(place) {
                continue;
            }
            let ran = check.run(self.ctx).await?;
            let after = files(self.ctx).await;
            let changed = self.files != after;
            self.files = after;
            {
                let mut passed = self.shared.passed();
                match &self.files {
                    Ok(files) if ran.run.passed() && !changed => {
                        passed.insert(place, files.clone())
                    }
                    Ok(_) | Err(_) => passed.remove(&place),
                };
            }
            if changed {
                self.changers.push(&check.name);
            }
            let timed_out = ran.timed_out;
            if let Some(slot) = self.ran.get_mut(place) {
                *slot = Some(ran);
            }
            if timed_out {
                break;
            }
        }
        Ok(())
    }

    fn is_fresh(&self, place: usize) -> bool {
        self.files.as_ref().is_ok_and(|files| self.shared.passed().get(&place) == Some(files))
    }

    fn all_fresh(&self, files: &FilesId) -> bool {
        let passed = self.shared.passed();
        (0..self.shared.checks.len()).all(|place| passed.get(&place) == Some(files))
    }

    /// Returns what is to be told of each check that ran, or did not have to.
    fn runs(&self) -> Vec<CheckRun> {
        let all = self.shared.checks.iter().zip(&self.ran).enumerate();
        let runs = all.filter_map(|(place, (check, ran))| match ran {
            Some(ran) => Some(ran.run.clone()),
            None => self.is_fresh(place).then(|| CheckRun { fresh: true, ..check.passed() }),
        });
        runs.collect()
    }

    /// Describes what failed, if anything. Nothing in it changes from one time to the next by itself: the same failure
    /// over and over must be seen as the same.
    fn failures(&self) -> Option<String> {
        let failed: Vec<&CheckExecution> =
            self.ran.iter().flatten().filter(|ran| !ran.run.passed()).collect();
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
            let error = error.as_deref().unwrap_or_default();
            let output = if output.is_empty() { "(no output)" } else { end_of(output, share) };
            let _ = write!(text, "\n\n{name}: `{command}` failed: {error}\n{output}");
        }
        text.push_str(
            "\n\nRepair what fails, then call task_complete again. If it cannot pass here, whatever you do, end your turn with a text that says why.",
        );
        Some(text)
    }
}

/// Returns the end of a text, at most so many bytes of it.
fn end_of(text: &str, most: usize) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(most));
    text.get(start..).unwrap_or_default()
}

async fn files(ctx: &ToolContext) -> Result<FilesId, String> {
    ctx.files().await.map_err(|error| error.to_string())
}
