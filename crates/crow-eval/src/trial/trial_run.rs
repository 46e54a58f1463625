//! The course of a trial: copy, program, check.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crow_core::capability::{ProcessEnd, ProcessError};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::{
    TestedProgram, TrialHost, TrialKey, TrialOutcome, TrialRecord, TrialUsage,
    program::{ProgramResult, ProgramRun, ProgramSetting},
    task_commands::{LineEnd, LineResult},
    task_tree::{check, copy_in_background, in_background, remove},
    trial_home::TrialHome,
};
use crate::task::EvalTask;

/// Folders of a trial.
pub(crate) struct TrialFolders<'a> {
    /// The files of the task.
    pub tree: &'a Path,
    /// A folder that does not exist, for home and working folder. It is removed at the end.
    pub scratch: PathBuf,
    /// Folder of the run.
    pub run: &'a Path,
    /// What the program must not read besides what is always hidden.
    pub hidden: Vec<PathBuf>,
}

/// The end of a trial.
#[derive(Debug)]
pub(crate) enum TrialEnd {
    /// It has a result.
    Done(Box<TrialRecord>),
    /// It was cancelled.
    Cancelled,
}

/// Runs a trial.
///
/// # Errors
/// Fails if its folders cannot be made or written.
pub(crate) async fn run_trial(
    key: &TrialKey,
    task: &EvalTask,
    program: &TestedProgram,
    folders: TrialFolders<'_>,
    host: &TrialHost,
    cancellation: &CancellationToken,
) -> io::Result<TrialEnd> {
    let started = Timestamp::now();
    // 1) Folders: outputs in the run's folder, everything else in a temporary one.
    let log_name = format!("trials/{}", key.folder_name());
    let log = folders.run.join(&log_name);
    fs::create_dir_all(&log)?;
    fs::create_dir_all(&folders.scratch)?;
    let work = folders.scratch.join("work");
    copy_in_background(folders.tree, &work).await?;
    let home = TrialHome::create(host, &folders.scratch, &folders.hidden)?;
    // 2) The program
    let setting = ProgramSetting {
        task,
        variant: &key.variant,
        seed: key.seed,
        folder: &work,
        variables: home.variables(),
        log: &log,
    };
    let ran = program.run(&setting, cancellation).await;
    let record = TrialRecord {
        key: key.clone(),
        outcome: TrialOutcome::ProgramFailed,
        exit_code: None,
        timed_out: false,
        used_model: None,
        usage: TrialUsage::default(),
        seconds: 0.0,
        message: String::new(),
        log: log_name,
        started,
    };
    let ran = match ran {
        Ok(ProgramRun { end: ProcessEnd::Cancelled, .. }) | Err(ProcessError::Cancelled) => {
            remove(folders.scratch).await;
            return Ok(TrialEnd::Cancelled);
        }
        Ok(ran) => ran,
        Err(error) => {
            remove(folders.scratch).await;
            let message = error.to_string();
            return Ok(TrialEnd::Done(Box::new(TrialRecord { message, ..record })));
        }
    };
    let record = with_program(record, &ran);
    if is_failure_of_program(&ran) {
        remove(folders.scratch).await;
        return Ok(TrialEnd::Done(Box::new(record)));
    }
    // 3) The check
    // The program may have removed its working folder, or made it unwritable.
    let checked = match check(task, &work, host, cancellation).await {
        Ok(checked) => checked,
        Err(error) => LineResult {
            end: LineEnd::Failed(format!("the files of the check cannot be written: {error}")),
            output: String::new(),
        },
    };
    remove(folders.scratch).await;
    if checked.end == LineEnd::Cancelled {
        return Ok(TrialEnd::Cancelled);
    }
    let check_log = log.join("check.txt");
    let output = checked.output.clone();
    in_background(move || fs::write(check_log, output)).await?;
    Ok(TrialEnd::Done(Box::new(with_check(record, &ran, &checked))))
}

/// Returns true if the program did not get to work: `sh` could not start it, or Crow says so.
fn is_failure_of_program(ran: &ProgramRun) -> bool {
    /// Exit codes of a shell for a program that is missing or cannot be run.
    const NOT_STARTED: [i32; 2] = [126, 127];
    match &ran.result {
        Some(result) => result.is_failure_of_program(),
        None => matches!(ran.end, ProcessEnd::Exited(code) if NOT_STARTED.contains(&code)),
    }
}

fn with_program(record: TrialRecord, ran: &ProgramRun) -> TrialRecord {
    let last_error = ran.stderr.lines().rev().find(|line| !line.trim().is_empty());
    let message = ran.result.as_ref().and_then(|result| result.error()).or(last_error);
    TrialRecord {
        exit_code: match ran.end {
            ProcessEnd::Exited(code) => Some(code),
            ProcessEnd::Signaled(_) | ProcessEnd::TimedOut | ProcessEnd::Cancelled => None,
        },
        timed_out: ran.end == ProcessEnd::TimedOut,
        used_model: ran.result.as_ref().and_then(ProgramResult::model).map(str::to_owned),
        usage: ran.result.as_ref().map(ProgramResult::usage).unwrap_or_default(),
        seconds: ran.duration.as_secs_f64(),
        message: crow_text::shorten(&crow_text::one_line(message.unwrap_or("")), 300),
        ..record
    }
}

fn with_check(record: TrialRecord, ran: &ProgramRun, checked: &LineResult) -> TrialRecord {
    let outcome = match (&checked.end, ran.end) {
        (LineEnd::Passed, _) => TrialOutcome::Solved,
        (LineEnd::TimedOut, _) => TrialOutcome::CheckTimedOut,
        (LineEnd::Failed(_) | LineEnd::Cancelled, ProcessEnd::Exited(0)) => TrialOutcome::FalseDone,
        (LineEnd::Failed(_) | LineEnd::Cancelled, _) => TrialOutcome::Stopped,
    };
    let message = match outcome {
        TrialOutcome::Solved => String::new(),
        TrialOutcome::Stopped if !record.message.is_empty() => record.message.clone(),
        _ => checked.message(),
    };
    TrialRecord { outcome, message, ..record }
}
