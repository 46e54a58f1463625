//! Execution of one check.

use std::{collections::BTreeMap, fmt::Write as _, io, time::Duration};

use crow_core::{
    capability::{
        CapturedOutput, OutputLimits, ProcessEnd, ProcessError, ProcessOutcome, ProcessSpec,
    },
    event::CheckRun,
    tool::ToolContext,
};

use super::Check;

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
pub(super) struct CheckExecution {
    pub(super) run: CheckRun,
    /// Beginning and end of its output.
    pub(super) output: String,
    /// True if it used up its time: others might, too.
    pub(super) timed_out: bool,
}

/// A reason for which a check has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckSkipReason {
    /// The call was cancelled.
    Cancelled,
    /// The run is read-only, and the check might change files.
    ReadOnly,
}

impl Check {
    /// Runs the check to its end.
    #[tracing::instrument(level = "debug", name = "check", skip_all, fields(check = self.name))]
    pub(super) async fn run(&self, ctx: &ToolContext) -> Result<CheckExecution, CheckSkipReason> {
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
        let mut output = text(&outcome.output);
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
    pub(super) fn passed(&self) -> CheckRun {
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
fn text(output: &CapturedOutput) -> String {
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
