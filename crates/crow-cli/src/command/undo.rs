//! `undo`, `redo`, `diff`, `restore` and `sessions show --changes`.

use std::{collections::BTreeSet, path::Path};

use crow_runtime::{ChangedCall, UndoError, UndoReport};

use super::write_out;
use crate::{
    args::{DiffArgs, OfSession, OutputForm, RedoArgs, RestoreArgs, ShowArgs, UndoArgs},
    environment::Environment,
    error::CliError,
    output::{CallLine, DiffLine, ExitCode, RecordLine, UndoLine, json_line},
    product,
    render::{
        ChangeLine, CommandStyle, ConsoleStyle, Destination, UndoReporter, change_table, in_order,
        unified_without,
    },
    run::console_style,
    undo::{DiffRefusal, DiffRequest, HowWords, Journal, absolute, diff_of, journal_of, lost},
};

/// `undo`.
pub(crate) fn undo(args: &UndoArgs, environment: &Environment) -> Result<ExitCode, CliError> {
    let mut known = journal_of(args.of.session.as_deref(), environment)?;
    let report = known.journal.undo(&args.words.target(), args.words.options())?;
    tell(&known, &report, (&args.of, args.words.how), environment)
}

/// `redo`.
pub(crate) fn redo(args: &RedoArgs, environment: &Environment) -> Result<ExitCode, CliError> {
    let mut known = journal_of(args.of.session.as_deref(), environment)?;
    let report = known.journal.redo(args.how.into())?;
    tell(&known, &report, (&args.of, args.how), environment)
}

/// `restore`.
pub(crate) fn restore(args: &RestoreArgs, environment: &Environment) -> Result<ExitCode, CliError> {
    let mut known = journal_of(args.of.session.as_deref(), environment)?;
    let cwd = environment.current_dir()?;
    let path = absolute(args.what.path.as_os_str(), known.journal.roots(), cwd);
    let report = known.journal.restore(&path, &args.what.at, args.how.into())?;
    tell(&known, &report, (&args.of, args.how), environment)
}

/// `diff`.
pub(crate) fn diff(args: &DiffArgs, environment: &Environment) -> Result<ExitCode, CliError> {
    let known = journal_of(args.of.session.as_deref(), environment)?;
    let request = DiffRequest { what: args.what.clone(), paths: args.paths.clone() };
    let patch = diff_of(&known.journal, &request, environment.current_dir()?)?;
    let ignored = known.journal.ignored(patch.files.iter().map(|file| file.path.as_path()));
    match args.of.output {
        OutputForm::Json => write_out(&line(&DiffLine::new(&known.session, &patch, &ignored))?),
        OutputForm::Text => {
            let destination = if environment.stdout_is_terminal {
                Destination::Reader
            } else {
                Destination::Program
            };
            let style = out_style(environment);
            let root = known.journal.root();
            let seen_from = match destination {
                Destination::Program => repository_around(root),
                Destination::Reader => root,
            };
            let ignored = if args.ignored { BTreeSet::new() } else { ignored };
            let text = unified_without(&ignored, &style, seen_from, patch, destination);
            write_out(text.as_bytes())
        }
    }
}

impl From<DiffRefusal> for CliError {
    fn from(refusal: DiffRefusal) -> Self {
        let hint = "`crow-agent diff -- PATH` shows what changed there";
        match refusal {
            DiffRefusal::Words(message) => Self::usage(message),
            DiffRefusal::Undo(error @ UndoError::UnknownCall { .. }) => {
                let error = Self::from(error);
                let both = error.hint.iter().map(String::as_str).chain([hint]);
                let hint = both.collect::<Vec<_>>().join("; ");
                error.hint(hint)
            }
            DiffRefusal::Undo(error) => error.into(),
        }
    }
}

/// Returns the folder that the names in a patch are relative to: git leaves out, without a word, what does not begin with the
/// way from the repository to where it is called.
fn repository_around(root: &Path) -> &Path {
    root.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(root)
}

/// `sessions show --changes`.
pub(crate) fn show_changes(
    args: &ShowArgs,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    let Journal { journal, .. } = journal_of(Some(&args.id), environment)?;
    let all = in_order(journal.calls(), journal.records());
    let store = product::session_store(environment)?;
    let lost = lost(store.as_ref(), journal.calls())?;
    match args.output {
        OutputForm::Json => {
            let lost = |call: &ChangedCall| lost.get(&call.seq).copied().unwrap_or(0);
            let lines = all.iter().map(|happened| match happened {
                ChangeLine::Call(call) => line(&CallLine::new(call, lost(call))),
                ChangeLine::Undo(record) => line(&RecordLine::new(record)),
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

/// Tells of a report. The exit code says whether every path is as it was to be.
fn tell(
    known: &Journal,
    report: &UndoReport,
    (of, how): (&OfSession, HowWords),
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    let paths = report.paths.iter().map(|path| path.path.as_path());
    let ignored = known.journal.ignored(paths);
    match of.output {
        OutputForm::Json => write_out(&line(&UndoLine::new(&known.session, report, &ignored))?)?,
        OutputForm::Text => {
            let reporter = UndoReporter {
                style: &out_style(environment),
                root: known.journal.root(),
                prompting: CommandStyle::Program(of.session.clone()),
                forced: how.force,
                ignored: &ignored,
            };
            write_out(reporter.text(report).as_bytes())?
        }
    };
    Ok(if report.is_complete() { ExitCode::Done } else { ExitCode::Failed })
}

/// How stdout looks, which may be a file where stderr is a terminal.
fn out_style(environment: &Environment) -> ConsoleStyle {
    let style = console_style(environment);
    ConsoleStyle { colour: style.colour && environment.stdout_is_terminal, ..style }
}

fn line(line: &impl serde::Serialize) -> Result<Vec<u8>, CliError> {
    json_line(line)
        .map_err(|error| CliError::failed(format!("this cannot be told as JSON: {error}")))
}
