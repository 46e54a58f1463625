//! `eval`: measuring agents on sets of tasks.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use crow_app::{ProcessEnvironment, product};
use crow_console::{ExitCode, SignalAction};
use crow_core::model::{ModelRef, ModelRefError};
use crow_eval::{
    AgentVariant, EvalBudget, EvalEnd, EvalPlan, EvalProgress, NewTask, RunComparison, RunFolder,
    RunManifest, RunSummary, StoredRun, TaskSet, TestedProgram, TrialHost, TrialOutcome,
    TrialRecord, html_page, run_trials, text_table,
};
use crow_text::one_line;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    args::{EvalArgs, EvalCommand, EvalListArgs, EvalRunArgs, OutputForm, TaskArgs},
    error::CliError,
    output::output_line,
    run::listen_to_signals,
    stored_sessions::journal_of,
    terminal::{print_message, write_line, write_out},
};

/// Runs `eval` or one of its commands.
pub(crate) async fn eval(
    args: EvalArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    match args.command {
        None => measure(args.run, environment).await,
        Some(EvalCommand::New { session, folder, check }) => {
            new_task(&session, &folder, &check, environment)
        }
        Some(EvalCommand::List(list_args)) => list(&list_args, environment).await,
        Some(EvalCommand::Compare { first, second, output }) => {
            compare(&first, &second, output, environment)
        }
    }
}

/// A line of JSON output.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum EvalLine<'a> {
    Task {
        name: &'a str,
        hash: String,
        tags: &'a [String],
        timeout_s: u64,
        max_steps: Option<u32>,
        origin: &'a str,
    },
    Trial(&'a TrialRecord),
    EvalSummary {
        /// Number of trials without a result.
        left: usize,
        #[serde(flatten)]
        summary: &'a RunSummary,
    },
    EvalComparison(&'a RunComparison),
}

async fn list(args: &EvalListArgs, environment: &ProcessEnvironment) -> Result<ExitCode, CliError> {
    let host = TrialHost::new(environment, None)?;
    let tasks = tasks(&args.tasks, &host, environment).await?;
    let mut out = Vec::new();
    for task in tasks.tasks() {
        let timeout_s = task.limits.program.as_secs();
        match args.output {
            OutputForm::Json => out.extend(output_line(&EvalLine::Task {
                name: &task.name,
                hash: task.hash().to_string(),
                tags: &task.tags,
                timeout_s,
                max_steps: task.limits.max_steps,
                origin: &task.origin,
            })?),
            OutputForm::Text => {
                let tags = task.tags.join(", ");
                let line = format!("{}  {timeout_s} s  {tags}  {}", task.name, task.origin);
                out.extend(format!("{}\n", one_line(&line)).into_bytes());
            }
        }
    }
    write_out(&out)
}

fn new_task(
    session: &str,
    folder: &Path,
    check: &str,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let opened = journal_of(Some(session), environment)?;
    let stored = product::session_store(environment)?.read(&opened.session)?;
    let task = NewTask { journal: &opened.journal, events: &stored.events, check };
    let written = task.write(&environment.current_dir()?.join(folder))?;
    for path in &written.unknown {
        print_message(&format!(
            "{}: its content before the session is not known; look at it",
            path.display()
        ));
    }
    let files =
        if written.files == 1 { "1 file".to_owned() } else { format!("{} files", written.files) };
    write_line(&format!("{}: a task with {files}", folder.display()))
}

fn compare(
    first: &Path,
    second: &Path,
    output: OutputForm,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let cwd = environment.current_dir()?;
    let (first, second) = (StoredRun::read(&cwd.join(first))?, StoredRun::read(&cwd.join(second))?);
    let comparison = RunComparison::new(&first, &second)?;
    match output {
        OutputForm::Json => write_out(&output_line(&EvalLine::EvalComparison(&comparison))?),
        OutputForm::Text => write_out(comparison.to_text().as_bytes()),
    }
}

async fn tasks(
    args: &TaskArgs,
    host: &TrialHost,
    environment: &ProcessEnvironment,
) -> Result<TaskSet, CliError> {
    let cwd = environment.current_dir()?;
    let paths: Vec<PathBuf> = args.paths.iter().map(|path| cwd.join(path)).collect();
    let selection = args.selection.clone().unwrap_or_default();
    let mut tasks = TaskSet::read(&paths, &selection, &host.listing_processes()).await?;
    if let Some(limit) = args.limit {
        tasks.truncate(limit.get());
    }
    if tasks.tasks().is_empty() {
        return Err(CliError::usage("no task has such a name or number")
            .hint("`crow-agent eval list` shows them"));
    }
    Ok(tasks)
}

async fn measure(
    args: EvalRunArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let cwd = environment.current_dir()?;
    let config = args.config.as_ref().map(|folder| cwd.join(folder));
    let host = TrialHost::new(environment, config.as_deref())?;
    let mut tasks = tasks(&args.tasks, &host, environment).await?;
    if let Some(time) = args.trial_time {
        tasks.limit_time(time);
    }
    let plan = EvalPlan {
        tasks: tasks.into_tasks(),
        variants: variants(&args)?,
        seeds: if args.seed.is_empty() { vec![1] } else { args.seed.clone() },
        program: program(&args)?,
        jobs: args.jobs,
        budget: EvalBudget { time: args.max_time, money: args.max_cost },
    };
    let config_hash = host
        .config_hash()
        .map_err(|error| CliError::config(format!("the configuration cannot be read: {error}")))?;
    let manifest = RunManifest::new(&plan, config_hash)
        .map_err(|error| CliError::failed(format!("the program cannot be read: {error}")))?;
    let mut folder = RunFolder::open(&cwd.join(&args.out), manifest)?;
    let MeasuredRun { end, left } = run_plan(&plan, &host, &mut folder, args.output).await?;
    if let Some(page) = &args.html {
        write_page(&cwd.join(page), &folder)?;
    }
    let summary = RunSummary::new(folder.run());
    match args.output {
        OutputForm::Json => {
            write_out(&output_line(&EvalLine::EvalSummary { left, summary: &summary })?)?;
        }
        OutputForm::Text => drop(write_out(text_table(&summary).as_bytes())?),
    }
    if left > 0 {
        let reason = match end {
            EvalEnd::Complete => "",
            EvalEnd::OutOfTime => "the time is used up: ",
            EvalEnd::OutOfMoney => "the money is used up: ",
            EvalEnd::Cancelled => "interrupted: ",
        };
        let trials = if left == 1 { "1 trial is" } else { &format!("{left} trials are") };
        print_message(&format!("{reason}{trials} left; the same command continues"));
    }
    Ok(match end {
        EvalEnd::Complete if summary.rows.iter().all(|row| row.trials == 0) => ExitCode::Failed,
        EvalEnd::Complete => ExitCode::Done,
        EvalEnd::OutOfTime | EvalEnd::OutOfMoney => ExitCode::Limit,
        EvalEnd::Cancelled => ExitCode::Interrupted,
    })
}

/// How a run of trials ended.
struct MeasuredRun {
    end: EvalEnd,
    /// Number of trials without a result.
    left: usize,
}

/// Runs the trials, and ends them at a signal or if the output is closed.
async fn run_plan(
    plan: &EvalPlan,
    host: &TrialHost,
    folder: &mut RunFolder,
    output: OutputForm,
) -> Result<MeasuredRun, CliError> {
    let cancellation = CancellationToken::new();
    let mut signals = listen_to_signals()?;
    let mut left = 0;
    let mut written = Ok(ExitCode::Done);
    let end = {
        let progress = |progress: EvalProgress<'_>| {
            if written.is_ok() {
                written = show_progress(progress, output, &mut left);
            }
            if written.is_err() {
                cancellation.cancel();
            }
        };
        let running = run_trials(plan, host, folder, progress, &cancellation);
        tokio::pin!(running);
        loop {
            tokio::select! {
                end = &mut running => break end?,
                action = signals.next() => match action {
                    SignalAction::Interrupt | SignalAction::End => cancellation.cancel(),
                    SignalAction::Continue => {}
                },
            }
        }
    };
    written?;
    Ok(MeasuredRun { end, left })
}

/// Returns the agents and models to measure: each agent with each model.
fn variants(args: &EvalRunArgs) -> Result<Vec<AgentVariant>, CliError> {
    for model in &args.model {
        model.parse::<ModelRef>().map_err(|error: ModelRefError| {
            CliError::usage(error.to_string()).hint("`crow-agent models` shows them")
        })?;
    }
    let or_default = |names: &[String]| -> Vec<Option<String>> {
        if names.is_empty() { vec![None] } else { names.iter().cloned().map(Some).collect() }
    };
    let (agents, models) = (or_default(&args.agent), or_default(&args.model));
    let mut variants = Vec::new();
    for agent in agents {
        for model in &models {
            let variant = AgentVariant { agent: agent.clone(), model: model.clone() };
            if !variants.contains(&variant) {
                variants.push(variant);
            }
        }
    }
    Ok(variants)
}

fn program(args: &EvalRunArgs) -> Result<TestedProgram, CliError> {
    let Some(line) = &args.program else {
        let executable = std::env::current_exe().map_err(|error| {
            CliError::failed(format!("the program does not find itself: {error}"))
        })?;
        return Ok(TestedProgram::Crow { executable, temperature: args.temperature });
    };
    if line.trim().is_empty() {
        return Err(CliError::usage("--program names no program"));
    }
    Ok(TestedProgram::ShellLine(line.clone()))
}

/// Reports progress: on stderr for people, as lines of JSON on stdout for programs. Sets the number of trials that are
/// left.
fn show_progress(
    progress: EvalProgress<'_>,
    output: OutputForm,
    left: &mut usize,
) -> Result<ExitCode, CliError> {
    match progress {
        EvalProgress::Begun { trials, finished } => {
            *left = trials - finished;
            if finished > 0 {
                print_message(&format!("{finished} of {trials} trials have a result already"));
            }
            Ok(ExitCode::Done)
        }
        EvalProgress::TrialEnded { record, finished, trials } => {
            *left = trials - finished;
            if output == OutputForm::Json {
                return write_out(&output_line(&EvalLine::Trial(record))?);
            }
            print_message(&trial_line(record, finished, trials));
            Ok(ExitCode::Done)
        }
    }
}

fn trial_line(record: &TrialRecord, finished: usize, trials: usize) -> String {
    let key = &record.key;
    let mut line = format!(
        "[{finished}/{trials}] {}, {}, seed {}: {}",
        key.task,
        key.variant,
        key.seed,
        record.outcome.as_str()
    );
    if record.outcome.is_counted() {
        // Writing to a string cannot fail.
        let _ = write!(line, ", {:.1} s", record.seconds);
        if record.timed_out {
            line.push_str(", timed out");
        }
    }
    if record.outcome != TrialOutcome::Solved && !record.message.is_empty() {
        let _ = write!(line, " ({})", record.message);
    }
    one_line(&line)
}

/// Writes the page of a run. Its links lead into the folder of the run.
fn write_page(page: &Path, folder: &RunFolder) -> Result<(), CliError> {
    let failed = |error: std::io::Error| {
        CliError::failed(format!("{} cannot be written: {error}", page.display()))
    };
    let parent = page.parent().unwrap_or(Path::new("/")).canonicalize().map_err(failed)?;
    let run = folder.path();
    let seen_from_page = match run.strip_prefix(&parent) {
        Ok(below) => below.display().to_string(),
        Err(_) => run.display().to_string(),
    };
    fs::write(page, html_page(folder.run(), &seen_from_page)).map_err(failed)
}
