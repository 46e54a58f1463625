//! `undo`, `redo`, `diff`, `restore` and `sessions show --changes`.

use std::{collections::BTreeSet, path::Path};

use crow_app::{ProcessEnvironment, product};
use crow_console::{ConsoleStyle, ExitCode};
use crow_runtime::{ChangedCall, UndoError, UndoReport};

use crate::{
    args::{DiffArgs, OfSession, OutputForm, RedoArgs, RestoreArgs, ShowArgs, UndoArgs},
    error::CliError,
    output::{CallLine, DiffLine, RecordLine, UndoLine, output_line},
    render::{
        ChangeLine, CommandStyle, Destination, UndoReporter, change_table, format_patch_without,
        merge_by_time,
    },
    stored_sessions::{Journal, journal_of},
    terminal::{console_style, write_out},
    undo::{ChangesRefusal, DiffRequest, HowWords, absolute, diff_of, irreversible_counts},
};

/// Undoes changes of a session.
pub(crate) fn undo(
    args: &UndoArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let mut opened = journal_of(args.of.session.as_deref(), environment)?;
    let report = args.words.undo(&mut opened.journal, environment.current_dir()?)?;
    print_report(&opened, &report, (&args.of, args.words.how), environment)
}

/// Undoes the last undo.
pub(crate) fn redo(
    args: &RedoArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let mut opened = journal_of(args.of.session.as_deref(), environment)?;
    let report = opened.journal.redo(args.how.into())?;
    print_report(&opened, &report, (&args.of, args.how), environment)
}

/// Restores a file to its state at a point of the session.
pub(crate) fn restore(
    args: &RestoreArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let mut opened = journal_of(args.of.session.as_deref(), environment)?;
    let cwd = environment.current_dir()?;
    let path = absolute(args.what.path.as_os_str(), opened.journal.roots(), cwd);
    let report = opened.journal.restore(&path, &args.what.at, args.how.into())?;
    print_report(&opened, &report, (&args.of, args.how), environment)
}

/// Prints a diff of the changes of a session. The output for a program is relative to the repository, so that `git
/// apply` accepts it.
pub(crate) fn diff(
    args: &DiffArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let opened = journal_of(args.of.session.as_deref(), environment)?;
    let request = DiffRequest { selector: args.what.clone(), paths: args.paths.clone() };
    let patch = diff_of(&opened.journal, &request, environment.current_dir()?)?;
    let ignored = opened.journal.ignored(patch.files.iter().map(|file| file.path.as_path()));
    match args.of.output {
        OutputForm::Json => {
            write_out(&output_line(&DiffLine::new(&opened.session, &patch, &ignored))?)
        }
        OutputForm::Text => {
            let destination = if environment.stdout_is_terminal {
                Destination::Reader
            } else {
                Destination::Program
            };
            let style = out_style(environment);
            let root = opened.journal.root();
            let seen_from = match destination {
                Destination::Program => repository_around(root),
                Destination::Reader => root,
            };
            let ignored = if args.ignored { BTreeSet::new() } else { ignored };
            let text = format_patch_without(&ignored, &style, seen_from, patch, destination);
            write_out(text.as_bytes())
        }
    }
}

impl From<ChangesRefusal> for CliError {
    fn from(refusal: ChangesRefusal) -> Self {
        let hint = "`crow-agent diff -- PATH` shows what changed there";
        match refusal {
            ChangesRefusal::Words(message) => Self::usage(message),
            ChangesRefusal::Undo(error @ UndoError::UnknownCall { .. }) => {
                let error = Self::from(error);
                let both = error.hint.iter().map(String::as_str).chain([hint]);
                let hint = both.collect::<Vec<_>>().join("; ");
                error.hint(hint)
            }
            ChangesRefusal::Undo(error) => error.into(),
        }
    }
}

/// Returns the folder that the names in a patch are relative to. `git apply` silently skips names that do not start
/// with the path from the repository to the directory it is called in.
fn repository_around(root: &Path) -> &Path {
    root.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(root)
}

/// Lists the calls that changed files, and the undo records, of a session.
pub(crate) fn show_changes(
    args: &ShowArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let Journal { journal, .. } = journal_of(Some(&args.id), environment)?;
    let all = merge_by_time(journal.calls(), journal.records());
    let store = product::session_store(environment)?;
    let lost = irreversible_counts(store.as_ref(), journal.calls())?;
    match args.output {
        OutputForm::Json => {
            let lost = |call: &ChangedCall| lost.get(&call.seq).copied().unwrap_or(0);
            let lines = all.iter().map(|change| match change {
                ChangeLine::Call(call) => output_line(&CallLine::new(call, lost(call))),
                ChangeLine::Undo(record) => output_line(&RecordLine::new(record)),
            });
            write_out(&lines.collect::<Result<Vec<_>, _>>()?.concat())
        }
        OutputForm::Text if all.is_empty() => {
            write_out(b"No call of this session changed files.\n")
        }
        OutputForm::Text => {
            write_out(change_table(&out_style(environment), &all, &lost).as_bytes())
        }
    }
}

/// Prints an undo report. The exit code is `Done` only if every path has its intended state.
fn print_report(
    opened: &Journal,
    report: &UndoReport,
    (of, how): (&OfSession, HowWords),
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let paths = report.paths.iter().map(|path| path.path.as_path());
    let ignored = opened.journal.ignored(paths);
    match of.output {
        OutputForm::Json => {
            write_out(&output_line(&UndoLine::new(&opened.session, report, &ignored))?)?
        }
        OutputForm::Text => {
            let reporter = UndoReporter {
                style: &out_style(environment),
                root: opened.journal.root(),
                command_style: CommandStyle::Program(of.session.clone()),
                forced: how.force,
                ignored: &ignored,
            };
            write_out(reporter.text(report).as_bytes())?
        }
    };
    Ok(if report.is_complete() { ExitCode::Done } else { ExitCode::Failed })
}

/// Returns the style of stdout, which may be a file although stderr is a terminal.
fn out_style(environment: &ProcessEnvironment) -> ConsoleStyle {
    let style = console_style(environment);
    ConsoleStyle { colour: style.colour && environment.stdout_is_terminal, ..style }
}
