//! The tool `bash`.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io,
    path::Path,
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use crow_core::{
    capability::{JobInfo, OutputLimits, ProcessEnd, ProcessError, ProcessOutcome, ProcessSpec},
    file_views::ContentHash,
    ids::CallId,
    tool::{
        CallPlan, CommandLine, Effects, Progress, Subject, ToolCategory, ToolContext, ToolError,
        ToolResult, ToolStatus, TypedTool,
    },
    workspace::ShellFolder,
};
use crow_shell::{exceeds_allowed, needs_bash, plan_command_line};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    jobs::detached_processes_note,
    output::{self, to_text},
    working_folder::{CwdFile, FolderChange, StartFolder, update_shell_folder},
};
use crate::{
    blocking::blocking_until_cancelled,
    paths::{self, display_path},
};

const DEFAULT_TIMEOUT_MS: u64 = 120_000;
const MAX_TIMEOUT_MS: u64 = 600_000;
const HEAD_BYTES: usize = 10 * 1024;
const TAIL_BYTES: usize = 20 * 1024;
const SPILL_BYTES: u64 = 64 * 1024 * 1024;
const TITLE_CHARS: usize = 80;

/// Environment in which no command waits for input or formats its output for a terminal.
const ENVIRONMENT: [(&str, &str); 5] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("NO_COLOR", "1"),
    ("TERM", "dumb"),
];

/// An attempt to start something in a shell.
type ShellAttempt<'a, T> = Pin<Box<dyn Future<Output = Result<T, ProcessError>> + Send + 'a>>;

/// Runs a command in a shell: `bash`, or `sh` if there is no `bash`.
#[derive(Debug, Default)]
pub(crate) struct Bash {
    lacks_bash: AtomicBool,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BashInput {
    #[serde(alias = "cmd", alias = "script")]
    command: String,
    /// Milliseconds, default 120000, at most 600000; none for jobs.
    #[serde(default, alias = "timeout_ms", alias = "timeoutMs")]
    timeout: Option<u64>,
    /// What it does, in a few words.
    #[serde(default)]
    description: Option<String>,
    /// Default: where the last command ended.
    #[serde(default, alias = "cwd", alias = "dir", alias = "directory", alias = "dir_path")]
    workdir: Option<String>,
    /// Starts a job (a server, a long build) and returns its id at once.
    #[serde(default, alias = "background", alias = "is_background")]
    run_in_background: bool,
}

#[async_trait]
impl TypedTool for Bash {
    type Input = BashInput;
    const NAME: &'static str = "bash";
    const CATEGORY: ToolCategory = ToolCategory::Execute;

    fn description(&self) -> &'static str {
        "Runs a shell command; returns its output (beginning and end of a long one) and exit code. Every call is a new \
         shell without input; only the folder it ends in is kept. What it leaves running ends with it, except \
         background jobs. You are told when a job ends: do not poll. Prefer the other tools to cat, sed, find and grep."
    }

    async fn plan(&self, input: &BashInput, ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        if input.command.trim().is_empty() {
            return Err(ToolError::Model("the command is empty".to_owned()));
        }
        if input.command.contains('\0') {
            return Err(ToolError::Model("the command contains a NUL character".to_owned()));
        }
        let command = input.command.trim_end();
        if input.run_in_background && command.ends_with('&') && !command.ends_with("&&") {
            return Err(ToolError::Model(
                "leave out the & at the end: a job ends when its shell does, and all of it runs in the background"
                    .to_owned(),
            ));
        }
        if input.timeout == Some(0) {
            return Err(ToolError::Model("timeout must be at least 1 millisecond".to_owned()));
        }
        let start = StartFolder::find(input.workdir.as_deref(), ctx).await?;
        let title = title(&input.command, &start.folder, ctx);
        let line = line(&input.command, &start.folder, ctx).await?;
        Ok(CallPlan { title, effects: Effects::Unknown, subject: Subject::Command(line) })
    }

    async fn execute(&self, input: BashInput, plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        let start = match StartFolder::find(input.workdir.as_deref(), ctx).await {
            Ok(start) => start,
            Err(error) => return error.to_result(),
        };
        if title(&input.command, &start.folder, ctx) != plan.title {
            // Permission was given for another folder.
            return ToolResult::failure(format!(
                "the command was not run: a call before it moved the shell to {}; make the call again",
                display_path(&start.folder, ctx)
            ));
        }
        let line = match planned(&input.command, &start.folder, plan, ctx).await {
            Ok(line) => line,
            Err(error) => return error.to_result(),
        };
        if input.run_in_background {
            return self.start_job(&input, plan, start, ctx).await;
        }
        // Commands in a sandbox can write only to their own temporary folder.
        let file = ctx.temp.as_ref().or(ctx.scratch.as_ref());
        let file = file.map(|folder| folder.join(file_name(&ctx.call_id, "folder")));
        let cwd_file = CwdFile::new(&line, file, ctx).await;
        let spec = spec(&input, plan, &start.folder, ctx);
        let timeout = spec.timeout;
        let outcome = match self.run(&input.command, spec, cwd_file.as_ref(), ctx).await {
            Ok(outcome) => outcome,
            Err(error) => return not_run(&error),
        };
        let end = match cwd_file {
            Some(cwd_file) => cwd_file.read(ctx).await,
            None => None,
        };
        let end = end.filter(|_| matches!(outcome.end, ProcessEnd::Exited(_)));
        result(&input, timeout, &outcome, update_shell_folder(start, end, ctx), ctx)
    }
}

impl Bash {
    async fn start_job(
        &self,
        input: &BashInput,
        plan: &CallPlan,
        start: StartFolder,
        ctx: &ToolContext,
    ) -> ToolResult {
        let Some(jobs) = &ctx.jobs else {
            return ToolResult::failure(
                "the command was not run: there are no background jobs here",
            );
        };
        let spec = ProcessSpec {
            timeout: input.timeout.map_or(Duration::MAX, Duration::from_millis),
            // The output of a job is not reported as progress, because the call ends first.
            progress: Progress::default(),
            ..spec(input, plan, &start.folder, ctx)
        };
        let started = self
            .in_shell(&input.command, |shell| {
                let argv = arguments(shell, &input.command, None);
                let spec = ProcessSpec { argv, ..spec.clone() };
                Box::pin(jobs.start(spec, plan.title.clone(), &ctx.cancellation))
            })
            .await;
        let id = match started {
            Ok(id) => id,
            Err(error) => return not_run(&error),
        };
        let mut output =
            format!("[{id} runs in the background, until this session ends at the latest]");
        if let Some(FolderChange { note, .. }) = update_shell_folder(start, None, ctx) {
            let _ = write!(output, "\n[{note}]");
        }
        let mut result = ToolResult::success(output);
        result.metadata.extra = json!({ JobInfo::EXTRA_KEY: id });
        result
    }

    /// Runs something in `bash`, or in `sh` if there is no `bash` and the line has the same meaning there.
    async fn in_shell<'a, T>(
        &self,
        line: &str,
        run: impl Fn(&'static str) -> ShellAttempt<'a, T>,
    ) -> Result<T, ProcessError> {
        let needs_bash = needs_bash(line);
        if needs_bash || !self.lacks_bash.load(Ordering::Relaxed) {
            let outcome = run("bash").await;
            if needs_bash || !is_missing(&outcome) {
                return outcome;
            }
        }
        let outcome = run("sh").await;
        // If neither starts, the folder is missing, which says nothing about `bash`.
        self.lacks_bash.store(!is_missing(&outcome), Ordering::Relaxed);
        outcome
    }

    async fn run(
        &self,
        command: &str,
        spec: ProcessSpec,
        cwd_file: Option<&CwdFile>,
        ctx: &ToolContext,
    ) -> Result<ProcessOutcome, ProcessError> {
        self.in_shell(command, |shell| {
            let spec = ProcessSpec { argv: arguments(shell, command, cwd_file), ..spec.clone() };
            ctx.processes.run(spec, ctx.cancellation.clone())
        })
        .await
    }
}

async fn line(text: &str, folder: &Path, ctx: &ToolContext) -> Result<CommandLine, ToolError> {
    let (text, folder, workspace) = (text.to_owned(), folder.to_owned(), ctx.workspace.clone());
    let path = ctx.processes.search_path().await;
    let work = move || plan_command_line(&text, &folder, &workspace, path.as_deref());
    blocking_until_cancelled(ctx, work).await
}

/// Makes sure that the line touches no paths other than those for which permission was given.
async fn planned(
    text: &str,
    folder: &Path,
    plan: &CallPlan,
    ctx: &ToolContext,
) -> Result<CommandLine, ToolError> {
    let current = line(text, folder, ctx).await?;
    match &plan.subject {
        Subject::Command(allowed) if !exceeds_allowed(allowed, &current, &ctx.workspace) => Ok(current),
        Subject::Command(_) | Subject::Nothing | Subject::Path(_) | Subject::Host(_) => {
            Err(ToolError::Model(
                "the command was not run: it leads to other files than when it was allowed; make the call again"
                    .to_owned(),
            ))
        }
    }
}

/// Makes the result of a command that did not start.
fn not_run(error: &ProcessError) -> ToolResult {
    if matches!(error, ProcessError::Cancelled) {
        return ToolResult::cancelled();
    }
    ToolResult::failure(format!("the command was not run: {error}"))
}

fn is_missing<T>(outcome: &Result<T, ProcessError>) -> bool {
    matches!(outcome, Err(ProcessError::Start { source, .. }) if source.kind() == io::ErrorKind::NotFound)
}

/// Returns the program and arguments of a shell that runs a command.
fn arguments(shell: &str, command: &str, cwd_file: Option<&CwdFile>) -> Vec<String> {
    cwd_file
        .and_then(|cwd_file| cwd_file.arguments(shell, command))
        .unwrap_or_else(|| [shell, "-c", command].map(str::to_owned).to_vec())
}

fn spec(input: &BashInput, plan: &CallPlan, folder: &Path, ctx: &ToolContext) -> ProcessSpec {
    // In a small window, less is shown.
    let limit = ctx.model.output_limit();
    let (head, tail) = (HEAD_BYTES.min(limit / 3), TAIL_BYTES.min(limit / 3 * 2));
    let spill = ctx.scratch.as_ref().map(|folder| folder.join(file_name(&ctx.call_id, "log")));
    ProcessSpec {
        argv: Vec::new(),
        cwd: folder.to_owned(),
        env: ENVIRONMENT
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .chain(ctx.trace_context().map(|span| ("TRACEPARENT".to_owned(), span.to_string())))
            .collect::<BTreeMap<_, _>>(),
        timeout: Duration::from_millis(
            input.timeout.unwrap_or(DEFAULT_TIMEOUT_MS).min(MAX_TIMEOUT_MS),
        ),
        output: OutputLimits { head, tail, spill, spill_cap: SPILL_BYTES },
        progress: ctx.progress.clone(),
        only_reads: plan.subject.only_reads(),
    }
}

/// Returns the name of a file of a call. Call ids come from models: only plain ones are used as they are, others are
/// hashed.
fn file_name(call_id: &CallId, extension: &str) -> String {
    let id = call_id.as_str();
    let is_plain = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    if id.chars().all(is_plain) && (1..=100).contains(&id.len()) {
        format!("{id}.{extension}")
    } else {
        format!("{}.{extension}", ContentHash::of_content(id.as_bytes()))
    }
}

/// Returns the first line of a command, shortened, and the folder if it is not the working directory.
fn title(command: &str, folder: &Path, ctx: &ToolContext) -> String {
    let line = command.trim().lines().next().unwrap_or_default();
    let mut title: String = paths::escape(line).chars().take(TITLE_CHARS).collect();
    if title.len() < command.trim().len() {
        title.push('…');
    }
    if folder != ctx.workspace.cwd() {
        let _ = write!(title, " (in {})", display_path(folder, ctx));
    }
    title
}

fn result(
    input: &BashInput,
    timeout: Duration,
    outcome: &ProcessOutcome,
    moved: Option<FolderChange>,
    ctx: &ToolContext,
) -> ToolResult {
    let mut output = to_text(&outcome.output, |path: &Path| display_path(path, ctx));
    if output.is_empty() {
        output.push_str("(no output)");
    }
    let mut extra = Map::new();
    if let Some(description) = &input.description {
        extra.insert("description".to_owned(), json!(description));
    }
    // Status and error of the call, then the last line of its output, which tells the model.
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
    if outcome.detached_count > 0 {
        let _ = write!(output, "\n[{}]", detached_processes_note(outcome.detached_count));
    } else if outcome.left_running {
        output.push_str(
            "\n[a process that the command started was still running when its shell ended, and was killed: only jobs outlive a call, see run_in_background]",
        );
    }
    let put_aside = output::append_sandbox_notes(outcome, &mut output, &mut extra, ctx);
    if let Some(FolderChange { note, next_folder: kept }) = moved {
        let _ = write!(output, "\n[{note}]");
        if let Some(kept) = kept {
            extra.insert(ShellFolder::EXTRA_KEY.to_owned(), json!(kept));
        }
    }
    let (status, error) = match put_aside {
        Some(error) if status == ToolStatus::Success => (ToolStatus::Error, Some(error)),
        Some(_) | None => (status, error),
    };
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

fn timed_out(input: &BashInput, error: &str) -> String {
    let advice = match input.timeout {
        Some(given) if given < 1000 => "timeout is in milliseconds".to_owned(),
        Some(given) if given >= MAX_TIMEOUT_MS => "split the work, or run_in_background".to_owned(),
        Some(_) | None => {
            format!("give a longer timeout, up to {MAX_TIMEOUT_MS}, or run_in_background")
        }
    };
    format!("{error} and was stopped with the processes of its group, no exit code; {advice}")
}
