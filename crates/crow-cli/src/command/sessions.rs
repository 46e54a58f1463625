//! `sessions list`, `show`, `export`, `repair` and `rm`.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use crow_core::{
    ids::SessionId,
    model::{ModelRef, Price},
};
use crow_runtime::{LostLine, Repair, SessionFilter, SessionMetadata, UnusedSessions};
use jiff::Timestamp;

use super::{show_changes, write_out};
use crate::{
    CliError, Environment,
    args::{ListArgs, OutputForm, ShowArgs},
    damage::{family, say_damage},
    export::to_markdown,
    known_secrets::redactor,
    output::{ExitCode, usage_of},
    product,
    render::{SessionRow, neutralise, session_table, show_session, used},
    run::console_style,
    session_record::SessionRecord,
};

/// `sessions list`.
pub(crate) fn list(args: &ListArgs, environment: &Environment) -> Result<ExitCode, CliError> {
    let cwd = args.cwd.as_deref().map(|cwd| resolved(cwd, environment)).transpose()?;
    let limit = Some(args.limit).filter(|limit| *limit > 0);
    let filter = SessionFilter { cwd, limit, after: None, unused: UnusedSessions::LeftOut };
    let sessions = product::session_store(environment)?.list(&filter)?;
    match args.output {
        OutputForm::Json => {
            let lines: Result<Vec<String>, _> =
                sessions.iter().map(serde_json::to_string).collect();
            let lines = lines.map_err(|error| CliError::failed(error.to_string()))?;
            write_out(
                lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>().as_bytes(),
            )
        }
        OutputForm::Text if sessions.is_empty() => {
            write_out(b"No sessions yet. `crow-agent run \"task\"` starts one.\n")
        }
        OutputForm::Text => {
            let home = environment.var("HOME");
            let rows: Vec<_> =
                sessions.iter().map(|session| row(session, home.as_deref())).collect();
            write_out(
                session_table(&console_style(environment), &rows, Timestamp::now()).as_bytes(),
            )
        }
    }
}

fn resolved(cwd: &Path, environment: &Environment) -> Result<PathBuf, CliError> {
    let path = environment.current_dir()?.join(cwd);
    path.canonicalize()
        .map_err(|error| CliError::usage(format!("cannot read {}: {error}", path.display())))
}

/// `sessions show`.
pub(crate) async fn show(args: &ShowArgs, environment: &Environment) -> Result<ExitCode, CliError> {
    if args.changes {
        return show_changes(args, environment);
    }
    let record = record(&args.id, environment)?;
    let mut text = Vec::new();
    match args.output {
        OutputForm::Json => {
            for event in &record.events {
                serde_json::to_writer(&mut text, event)
                    .map_err(|error| CliError::failed(error.to_string()))?;
                text.push(b'\n');
            }
        }
        OutputForm::Text => {
            let (style, prices) = (console_style(environment), prices(&record, environment).await);
            let shown = show_session(&style, &record.events, &prices, &mut text);
            shown.map_err(|error| CliError::failed(error.to_string()))?;
            let used = used(&style, &usage_of(&record.events, &prices));
            if !used.is_empty() {
                text.extend_from_slice(format!("in all: {used}\n").as_bytes());
            }
        }
    }
    write_out(&text)
}

/// `sessions export`.
pub(crate) async fn export(prefix: &str, environment: &Environment) -> Result<ExitCode, CliError> {
    let record = record(prefix, environment)?;
    write_out(to_markdown(&record, &prices(&record, environment).await).as_bytes())
}

/// Reads what is recorded of a session, and says what of it is damaged.
fn record(prefix: &str, environment: &Environment) -> Result<SessionRecord, CliError> {
    let store = product::session_store(environment)?;
    let id = store.find(prefix)?;
    let record = SessionRecord::read(store.as_ref(), &id, &redactor(environment, None))?;
    say_damage(&id, &record.damage);
    Ok(record)
}

/// What the models of a session cost. Providers that cannot be read keep nobody from reading a session.
async fn prices(record: &SessionRecord, environment: &Environment) -> Vec<(ModelRef, Price)> {
    match product::models(environment, &[]) {
        Ok(models) => record.prices(&models).await,
        Err(_) => Vec::new(),
    }
}

/// `sessions repair`, which repairs the sessions of the agents below it as well.
pub(crate) fn repair(prefix: &str, environment: &Environment) -> Result<ExitCode, CliError> {
    let store = product::session_store(environment)?;
    let root = store.find(prefix)?;
    let mut told = String::new();
    for id in family(store.as_ref(), &root)? {
        let Repair { damage, kept } = store.repair(&id)?;
        if damage.is_none() {
            continue;
        }
        let _ = writeln!(told, "session {id}: {damage}");
        if let Some(reason) = damage.header {
            let _ = writeln!(told, "  the header was made anew from the log ({reason})");
        }
        for LostLine { line, reason } in damage.lines {
            let _ = writeln!(told, "  line {line} is lost ({reason})");
        }
        for path in kept {
            let _ = writeln!(told, "  as it was: {}", path.display());
        }
    }
    if told.is_empty() {
        told = format!("session {root}: nothing is damaged\n");
    }
    write_out(neutralise(&told).as_bytes())
}

/// `sessions rm`. All ids are looked up before any session is removed; what is removed is told also if a later one fails.
pub(crate) fn remove(prefixes: &[String], environment: &Environment) -> Result<ExitCode, CliError> {
    let store = product::session_store(environment)?;
    let mut ids: Vec<SessionId> = Vec::new();
    for prefix in prefixes {
        let id = store.find(prefix)?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let snapshots = product::snapshot_stores(environment)?;
    for id in &ids {
        crate::undo::remove(store.as_ref(), &snapshots, id)?;
        write_out(format!("removed {id}\n").as_bytes())?;
    }
    Ok(ExitCode::Done)
}

fn row(metadata: &SessionMetadata, home: Option<&str>) -> SessionRow {
    let crow = metadata.crow();
    let cwd = match home.and_then(|home| crow.cwd.strip_prefix(home).ok()) {
        Some(below) => format!("~/{}", below.display()),
        None => crow.cwd.display().to_string(),
    };
    SessionRow {
        id: metadata.session_id.to_string(),
        updated: metadata.updated_at,
        title: if crow.rebuilt { format!("(damaged) {}", crow.title) } else { crow.title },
        model: metadata.model_ref().to_string(),
        cwd,
    }
}
