//! The tool `bash`.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use crow_core::{
    capability::{OutputLimits, ProcessEnd, ProcessError, ProcessOutcome, ProcessSpec},
    file_views::ContentHash,
    ids::CallId,
    tool::{
        CallPlan, Effects, Subject, ToolCategory, ToolContext, ToolError, ToolResult, ToolStatus,
        TypedTool,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{output::to_text, parse::read_command_line};
use crate::{
    blocking::blocking_until_cancelled,
    paths::{self, explain, here, shown},
};

const DEFAULT_TIMEOUT_MS: u64 = 120_000;
const MAX_TIMEOUT_MS: u64 = 600_000;
const HEAD_BYTES: usize = 10 * 1024;
const TAIL_BYTES: usize = 20 * 1024;
const SPILL_BYTES: u64 = 64 * 1024 * 1024;
const TITLE_CHARS: usize = 80;

/// Nothing may wait for a person or paint for one.
const ENVIRONMENT: [(&str, &str); 5] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("NO_COLOR", "1"),
    ("TERM", "dumb"),
];

/// Runs a command in a shell: `bash`, or `sh` where there is none.
#[derive(Debug, Default)]
pub(crate) struct Bash {
    lacks_bash: AtomicBool,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    #[serde(alias = "cmd", alias = "script")]
    command: String,
    /// Milliseconds, default 120000, at most 600000.
    #[serde(default, alias = "timeout_ms", alias = "timeoutMs")]
    timeout: Option<u64>,
    /// What it does, in a few words.
    #[serde(default)]
    description: Option<String>,
    /// Where to run it. Default: the working directory.
    #[serde(
        default = "here",
        alias = "cwd",
        alias = "dir",
        alias = "directory",
        alias = "dir_path"
    )]
    workdir: String,
}

#[async_trait]
impl TypedTool for Bash {
    type Input = Input;
    const NAME: &'static str = "bash";
    const CATEGORY: ToolCategory = ToolCategory::Execute;

    fn description(&self) -> &'static str {
        "Runs a shell command and returns its output (stdout and stderr, beginning and end of long ones) and exit code. \
         Every call is a new shell without input. What it leaves running is not kept. Prefer the file and search tools \
         to cat, sed, find and grep."
    }

    async fn plan(&self, input: &Input, ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        if input.command.trim().is_empty() {
            return Err(ToolError::Model("the command is empty".to_owned()));
        }
        if input.command.contains('\0') {
            return Err(ToolError::Model("the command contains a NUL character".to_owned()));
        }
        if input.timeout == Some(0) {
            return Err(ToolError::Model("timeout must be at least 1 millisecond".to_owned()));
        }
        let folder = workdir(&input.workdir, ctx).await?;
        let mut title = title(&input.command);
        if folder != ctx.workspace.cwd() {
            title = format!("{title} (in {})", ctx.workspace.display(&folder));
        }
        Ok(CallPlan {
            title,
            effects: Effects::Unknown,
            subject: Subject::Command(read_command_line(&input.command)),
        })
    }

    async fn execute(&self, input: Input, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        let spec = match spec(&input, ctx).await {
            Ok(spec) => spec,
            Err(error) => return error.to_result(),
        };
        let timeout = spec.timeout;
        match self.run(spec, ctx).await {
            Ok(outcome) => result(&input, timeout, &outcome, ctx),
            Err(error) => ToolResult::failure(format!("the command was not run: {error}")),
        }
    }
}

impl Bash {
    async fn run(
        &self,
        mut spec: ProcessSpec,
        ctx: &ToolContext,
    ) -> Result<ProcessOutcome, ProcessError> {
        if !self.lacks_bash.load(Ordering::Relaxed) {
            let outcome = ctx.processes.run(spec.clone(), ctx.cancellation.clone()).await;
            if !is_missing(&outcome) {
                return outcome;
            }
        }
        if let Some(program) = spec.argv.first_mut() {
            "sh".clone_into(program);
        }
        let outcome = ctx.processes.run(spec, ctx.cancellation.clone()).await;
        // If neither starts, it is the folder that is missing, and says nothing about bash.
        self.lacks_bash.store(!is_missing(&outcome), Ordering::Relaxed);
        outcome
    }
}

fn is_missing(outcome: &Result<ProcessOutcome, ProcessError>) -> bool {
    matches!(outcome, Err(ProcessError::Start { source, .. }) if source.kind() == io::ErrorKind::NotFound)
}

/// Resolves the folder to run in.
async fn workdir(given: &str, ctx: &ToolContext) -> Result<PathBuf, ToolError> {
    let path = paths::resolve(given, ctx).await?;
    let name = shown(&path, ctx);
    let work = move || match fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => Ok(path),
        Ok(_) => Err(ToolError::Model(format!("workdir {name} is not a folder"))),
        Err(error) => Err(ToolError::Model(explain(&format!("workdir {name}"), &error))),
    };
    blocking_until_cancelled(ctx, work).await?
}

async fn spec(input: &Input, ctx: &ToolContext) -> Result<ProcessSpec, ToolError> {
    let cwd = workdir(&input.workdir, ctx).await?;
    let spill = ctx.scratch.as_ref().map(|folder| folder.join(spill_name(&ctx.call_id)));
    Ok(ProcessSpec {
        argv: vec!["bash".to_owned(), "-c".to_owned(), input.command.clone()],
        cwd,
        env: ENVIRONMENT
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect::<BTreeMap<_, _>>(),
        timeout: Duration::from_millis(
            input.timeout.unwrap_or(DEFAULT_TIMEOUT_MS).min(MAX_TIMEOUT_MS),
        ),
        output: OutputLimits { head: HEAD_BYTES, tail: TAIL_BYTES, spill, spill_cap: SPILL_BYTES },
        progress: ctx.progress.clone(),
    })
}

/// The name of the file with the whole output. Call ids come from models: only harmless ones are taken as they are.
fn spill_name(call_id: &CallId) -> String {
    let id = call_id.as_str();
    let is_plain = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    if id.chars().all(is_plain) && (1..=100).contains(&id.len()) {
        format!("{id}.log")
    } else {
        format!("{}.log", ContentHash::of(id.as_bytes()))
    }
}

/// The first line of a command, shortened.
fn title(command: &str) -> String {
    let line = command.trim().lines().next().unwrap_or_default();
    let mut title: String = paths::escape(line).chars().take(TITLE_CHARS).collect();
    if title.len() < command.trim().len() {
        title.push('…');
    }
    title
}

fn result(
    input: &Input,
    timeout: Duration,
    outcome: &ProcessOutcome,
    ctx: &ToolContext,
) -> ToolResult {
    let mut output = to_text(&outcome.output, |path: &Path| shown(path, ctx));
    if output.is_empty() {
        output.push_str("(no output)");
    }
    let mut extra = Map::new();
    if let Some(description) = &input.description {
        extra.insert("description".to_owned(), json!(description));
    }
    let (status, error) = match outcome.end {
        ProcessEnd::Exited(0) => (ToolStatus::Success, None),
        ProcessEnd::Exited(code) => (ToolStatus::Error, Some(format!("exit code {code}"))),
        ProcessEnd::Signaled(signal) => (ToolStatus::Error, Some(killed(signal))),
        ProcessEnd::TimedOut => {
            (ToolStatus::Error, Some(format!("timed out after {} ms", timeout.as_millis())))
        }
        ProcessEnd::Cancelled => (ToolStatus::Cancelled, None),
    };
    let end = match (outcome.end, &error) {
        (ProcessEnd::Exited(code), _) => {
            extra.insert("exit_code".to_owned(), json!(code));
            format!("exit code {code}")
        }
        (ProcessEnd::Signaled(signal), _) => {
            extra.insert("exit_code".to_owned(), json!(signal.saturating_add(128)));
            killed(signal)
        }
        (ProcessEnd::TimedOut, error) => timed_out(input, error.as_deref().unwrap_or_default()),
        (ProcessEnd::Cancelled, _) => {
            "cancelled; the command was stopped, what it did until then was not undone".to_owned()
        }
    };
    let _ = write!(output, "\n[{end}]");
    if outcome.left_running {
        output.push_str(
            "\n[something that the command started was still running when its shell ended; the processes of its group were ended]",
        );
    }
    let mut result = ToolResult { status, error, ..ToolResult::success(output) };
    if !extra.is_empty() {
        result.metadata.extra = Value::Object(extra);
    }
    result
}

fn killed(signal: i32) -> String {
    let name = match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    };
    format!("killed by signal {signal}{name}, exit code {}", signal.saturating_add(128))
}

fn timed_out(input: &Input, error: &str) -> String {
    let advice = match input.timeout {
        Some(given) if given < 1000 => "timeout is in milliseconds".to_owned(),
        Some(given) if given >= MAX_TIMEOUT_MS => "split the work".to_owned(),
        Some(_) | None => format!("give a longer timeout, up to {MAX_TIMEOUT_MS}"),
    };
    format!("{error} and was stopped with the processes of its group, no exit code; {advice}")
}
