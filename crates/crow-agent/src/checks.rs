//! Verified completion: commands of the user whose success is the evidence that work is done.
//!
//! Neither what the model says nor what it wrote counts here, only the commands that the user configured, run with
//! the files as they are.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crow_core::{
    capability::{
        CapturedOutput, OutputLimits, ProcessEnd, ProcessError, ProcessOutcome, ProcessSpec,
    },
    event::{CheckReport, CheckRun},
    ids::FilesId,
    tool::ToolContext,
};

/// A command whose success is the evidence that work is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Name of the check.
    pub name: String,
    /// The command line, run by `bash -c` in the working directory.
    pub command: String,
    /// Time limit. A check that exceeds it has failed.
    pub timeout: Duration,
}

impl Check {
    /// Time limit of a check that names none.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(10);

    /// Makes a check with the default time limit.
    pub fn new(name: impl Into<String>, command: impl Into<String>) -> Self {
        Self { name: name.into(), command: command.into(), timeout: Self::DEFAULT_TIMEOUT }
    }
}

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

/// Bytes of a failed check's output that the model is shown, from its beginning and from its end.
const HEAD_BYTES: usize = 1024;
const TAIL_BYTES: usize = 3 * 1024;
/// Most bytes of output that the log file takes.
const SPILL_BYTES: u64 = 64 * 1024 * 1024;

/// Environment in which no command waits for input or formats its output for a terminal.
const ENVIRONMENT: [(&str, &str); 5] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("NO_COLOR", "1"),
    ("TERM", "dumb"),
];

/// Result of a check that ran.
#[derive(Debug, Clone)]
struct CheckExecution {
    run: CheckRun,
    /// Beginning and end of its output.
    output: String,
    /// True if it used up its time: others might, too.
    timed_out: bool,
}

/// A reason for which a check has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CheckSkipReason {
    /// The call was cancelled.
    Cancelled,
    /// The run is read-only, and the check might change files.
    ReadOnly,
}

impl Check {
    /// Runs the check to its end.
    #[tracing::instrument(level = "debug", name = "check", skip_all, fields(check = self.name))]
    async fn run(&self, ctx: &ToolContext) -> Result<CheckExecution, CheckSkipReason> {
        ctx.progress.report(format!("$ {}\n", self.command));
        let outcome = match self.in_shell(ctx).await {
            Ok(ProcessOutcome { end: ProcessEnd::Cancelled, .. })
            | Err(ProcessError::Cancelled) => Err(CheckSkipReason::Cancelled),
            Err(ProcessError::ReadOnly) => Err(CheckSkipReason::ReadOnly),
            Ok(outcome) => Ok(self.execution(&outcome)),
            Err(error) => Ok(self.failed(Duration::ZERO, None, format!("it was not run: {error}"))),
        };
        match &outcome {
            Ok(CheckExecution { run, .. }) => {
                let CheckRun { exit_code, duration_ms, .. } = run;
                tracing::debug!(passed = run.passed(), exit_code, duration_ms, "check ended");
            }
            Err(reason) => tracing::debug!(?reason, "check not run"),
        }
        outcome
    }

    /// Runs the command in `bash`, or in `sh` if there is no `bash`.
    async fn in_shell(&self, ctx: &ToolContext) -> Result<ProcessOutcome, ProcessError> {
        let start = |shell| ctx.user_processes.run(self.spec(shell, ctx), ctx.cancellation.clone());
        match start("bash").await {
            Err(ProcessError::Start { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                start("sh").await
            }
            result => result,
        }
    }

    fn spec(&self, shell: &str, ctx: &ToolContext) -> ProcessSpec {
        let name: String =
            self.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let spill = ctx.scratch.as_ref().map(|folder| folder.join(format!("check-{name}.log")));
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        ProcessSpec {
            argv: vec![shell.to_owned(), "-c".to_owned(), self.command.clone()],
            cwd: ctx.workspace.cwd().to_path_buf(),
            env: ENVIRONMENT.iter().map(pair).collect::<BTreeMap<_, _>>(),
            timeout: self.timeout,
            output: OutputLimits {
                head: HEAD_BYTES,
                tail: TAIL_BYTES,
                spill,
                spill_cap: SPILL_BYTES,
            },
            progress: ctx.progress.clone(),
            only_reads: false,
        }
    }

    fn execution(&self, outcome: &ProcessOutcome) -> CheckExecution {
        let (exit_code, error) = match outcome.end {
            ProcessEnd::Exited(0) if !outcome.quarantined.is_empty() => {
                let paths =
                    outcome.quarantined.iter().map(|aside| aside.path.display().to_string());
                let paths = paths.collect::<Vec<_>>().join(", ");
                (Some(0), Some(format!("it made protected files, which were moved away: {paths}")))
            }
            ProcessEnd::Exited(0) => (Some(0), None),
            ProcessEnd::Exited(code) => (Some(code), Some(format!("exit code {code}"))),
            ProcessEnd::Signaled(signal) => (None, Some(format!("killed by signal {signal}"))),
            ProcessEnd::TimedOut | ProcessEnd::Cancelled => {
                (None, Some(format!("timed out after {}", format_duration(self.timeout))))
            }
        };
        let mut output = output_text(&outcome.output);
        if !outcome.refused_hosts.is_empty() {
            let hosts: Vec<_> = outcome.refused_hosts.iter().map(ToString::to_string).collect();
            let _ = write!(output, "\n[out of reach in the sandbox: {}]", hosts.join(", "));
        }
        let execution = match error {
            None => CheckExecution { run: self.passed(), output, timed_out: false },
            Some(error) => {
                CheckExecution { output, ..self.failed(outcome.duration, exit_code, error) }
            }
        };
        let duration_ms = u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX);
        let timed_out = outcome.end == ProcessEnd::TimedOut;
        CheckExecution { run: CheckRun { duration_ms, ..execution.run }, timed_out, ..execution }
    }

    /// Returns the record of a check that passed and took no time.
    fn passed(&self) -> CheckRun {
        CheckRun {
            name: self.name.clone(),
            command: self.command.clone(),
            exit_code: Some(0),
            error: None,
            duration_ms: 0,
            fresh: false,
        }
    }

    fn failed(&self, duration: Duration, exit_code: Option<i32>, error: String) -> CheckExecution {
        let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let run = CheckRun { exit_code, error: Some(error), duration_ms, ..self.passed() };
        CheckExecution { run, output: String::new(), timed_out: false }
    }
}

fn format_duration(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{} s", time.as_secs())
    }
}

/// Returns the beginning and the end of a check's output.
fn output_text(output: &CapturedOutput) -> String {
    let mut text = String::from_utf8_lossy(&output.head).into_owned();
    if output.omitted() > 0 {
        let log_note =
            output.spill.as_ref().map(|file| format!("; the log is {}", file.path.display()));
        let _ = write!(
            text,
            "\n[… {} bytes left out{} …]\n",
            output.omitted(),
            log_note.unwrap_or_default()
        );
    }
    text.push_str(&String::from_utf8_lossy(&output.tail));
    text.trim_end().to_owned()
}
