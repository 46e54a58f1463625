//! The set-up line and the check of a task, in the sandbox.

use std::{fmt::Write as _, path::Path, sync::Arc};

use crow_core::{
    capability::{
        CapturedOutput, Containment, OutputLimits, ProcessEnd, ProcessError, ProcessSpec,
        Processes as _,
    },
    tool::Progress,
};
use crow_runtime::{LinkSearch, ProcessRunner, Sandbox};
use tokio_util::sync::CancellationToken;

use super::TrialHost;
use crate::task::EvalTask;

/// Bytes of output that are kept of the beginning and of the end.
const KEPT_OUTPUT: usize = 64 * 1024;
/// Variable with the folder of the task.
const TASK_FOLDER: &str = "TASK_FOLDER";

/// Which line of a task is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskLine {
    Setup,
    Check,
}

/// How a line ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LineResult {
    pub end: LineEnd,
    /// Its output, perhaps without the middle.
    pub output: String,
}

/// The end of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LineEnd {
    Passed,
    /// With the reason.
    Failed(String),
    TimedOut,
    Cancelled,
}

impl LineResult {
    /// Returns the reason of a failure with the end of the output, in one line.
    pub(super) fn message(&self) -> String {
        let reason = match &self.end {
            LineEnd::Passed => "passed",
            LineEnd::Failed(reason) => reason,
            LineEnd::TimedOut => "it did not end in time",
            LineEnd::Cancelled => "it was cancelled",
        };
        let last = self.output.lines().rev().find(|line| !line.trim().is_empty());
        match last {
            Some(last) => {
                format!("{reason}: {}", crow_text::shorten(&crow_text::one_line(last), 200))
            }
            None => reason.to_owned(),
        }
    }
}

/// Runs a line of a task in a working folder. It may change files in that folder only, and has no network but loopback,
/// as far as the system can confine processes.
pub(super) async fn run_line(
    line: TaskLine,
    task: &EvalTask,
    folder: &Path,
    host: &TrialHost,
    cancellation: &CancellationToken,
) -> LineResult {
    let (text, timeout) = match line {
        TaskLine::Setup => {
            (task.setup.as_deref().expect("invariant: there is a set-up"), task.limits.setup)
        }
        TaskLine::Check => (task.check.as_str(), task.limits.check),
    };
    let roots = vec![folder.to_owned()];
    let links = Arc::new(LinkSearch::new(host.sandbox.links.clone(), roots.clone()));
    let name = format!("eval-{}", uuid::Uuid::now_v7());
    let sandbox = Sandbox::new(host.sandbox.config.clone(), name, roots).with_links(links);
    let runner = ProcessRunner::new(host.command_variables.clone()).in_sandbox(Arc::new(sandbox));
    let mut env = task.variables.clone();
    env.insert(TASK_FOLDER.to_owned(), task.folder.display().to_string());
    let spec = |shell: &str| ProcessSpec {
        argv: vec![shell.to_owned(), "-c".to_owned(), text.to_owned()],
        cwd: folder.to_owned(),
        env: env.clone(),
        timeout,
        output: output_limits(),
        progress: Progress::default(),
        only_reads: false,
    };
    let start = |shell: &'static str| runner.run(spec(shell), cancellation.clone());
    let outcome = match start("bash").await {
        Err(ProcessError::Start { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            start("sh").await
        }
        outcome => outcome,
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(ProcessError::Cancelled) => {
            return LineResult { end: LineEnd::Cancelled, output: String::new() };
        }
        Err(error) => {
            let end = LineEnd::Failed(error.to_string());
            return LineResult { end, output: String::new() };
        }
    };
    if outcome.containment == Containment::None {
        tracing::warn!(?line, "a line of a task ran without a sandbox");
    }
    let end = match outcome.end {
        ProcessEnd::Exited(0) if outcome.quarantined.is_empty() || line == TaskLine::Check => {
            LineEnd::Passed
        }
        ProcessEnd::Exited(0) => {
            let paths = outcome.quarantined.iter().map(|aside| aside.path.display().to_string());
            let paths = paths.collect::<Vec<_>>().join(", ");
            LineEnd::Failed(format!("it made protected files, which were moved away: {paths}"))
        }
        ProcessEnd::Exited(code) => LineEnd::Failed(format!("exit code {code}")),
        ProcessEnd::Signaled(signal) => LineEnd::Failed(format!("killed by signal {signal}")),
        ProcessEnd::TimedOut => LineEnd::TimedOut,
        ProcessEnd::Cancelled => LineEnd::Cancelled,
    };
    LineResult { end, output: output_text(&outcome.output) }
}

/// Limits on the output of lines.
fn output_limits() -> OutputLimits {
    OutputLimits { head: KEPT_OUTPUT, tail: KEPT_OUTPUT, spill: None, spill_cap: 0 }
}

fn output_text(output: &CapturedOutput) -> String {
    let mut text = String::from_utf8_lossy(&output.head).into_owned();
    if output.omitted() > 0 {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n[… {} bytes left out …]\n", output.omitted());
    }
    text.push_str(&String::from_utf8_lossy(&output.tail));
    text
}
