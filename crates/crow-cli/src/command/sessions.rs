//! `sessions list`, `show`, `export`, `repair`, `rename` and `rm`.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
};

use crow_app::{
    ProcessEnvironment, SessionRecord,
    host::{output_of, session_title},
    known_secrets::redactor,
    product,
};
use crow_console::{
    ConsoleStyle, ExitCode, UsageReport, prices_of, short_usage_text, show_session, usage_of,
    usage_text,
};
use crow_core::{
    ids::SessionId,
    model::{ModelRef, Models as _, Price},
    usage::TokenUsage,
};
use crow_providers::ProviderModels;
use crow_runtime::{
    AgentSession, LostLine, ModelUsage, RuntimeConfig, SessionFilter, SessionMetadata,
    SessionRepair, UnusedSessions,
};
use crow_text::neutralise;
use jiff::Timestamp;
use serde::Serialize;

use crate::{
    args::{ListArgs, OutputForm, ShowArgs},
    command::show_changes,
    error::CliError,
    export::to_markdown,
    output::output_line,
    render::{SessionRow, session_table},
    session_context::SessionContext,
    stored_sessions::{print_damage, session_subtree},
    terminal::{console_style, write_line, write_out},
};

/// Lists the stored sessions.
pub(crate) async fn list(
    args: &ListArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let cwd = args.cwd.as_deref().map(|cwd| resolved(cwd, environment)).transpose()?;
    let limit = Some(args.limit).filter(|limit| *limit > 0);
    let filter = SessionFilter { cwd, limit, after: None, unused: UnusedSessions::LeftOut };
    let sessions = product::session_store(environment)?.list(&filter)?;
    // Sessions are listed without prices if the providers cannot be loaded.
    let models = product::models(environment, &[]).ok();
    match args.output {
        OutputForm::Json => {
            let mut text = Vec::new();
            for session in sessions {
                let used = used_by(&session, models.as_ref()).await;
                text.extend(output_line(&ListedSession { session, used })?);
            }
            write_out(&text)
        }
        OutputForm::Text if sessions.is_empty() => {
            write_out(b"No sessions yet. `crow-agent run \"task\"` starts one.\n")
        }
        OutputForm::Text => {
            let home = environment.var("HOME");
            let mut rows = Vec::with_capacity(sessions.len());
            for session in &sessions {
                let used = short_usage_text(&used_by(session, models.as_ref()).await);
                rows.push(row(session, used, home.as_deref()));
            }
            write_out(
                session_table(&console_style(environment), &rows, Timestamp::now()).as_bytes(),
            )
        }
    }
}

/// Returns the absolute path of a directory, without links.
pub(super) fn resolved(cwd: &Path, environment: &ProcessEnvironment) -> Result<PathBuf, CliError> {
    let path = environment.current_dir()?.join(cwd);
    path.canonicalize()
        .map_err(|error| CliError::usage(format!("cannot read {}: {error}", path.display())))
}

/// Shows the events of a session, or its changes.
pub(crate) async fn show(
    args: &ShowArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    if args.changes {
        return show_changes(args, environment);
    }
    let record = record(&args.id, environment)?;
    if let Some(call) = &args.call {
        let output = output_of(&record.events, call);
        // A program gets the bytes of the command; a terminal must not carry them out.
        let output = if io::stdout().is_terminal() { neutralise(&output) } else { output };
        return write_out(format!("{}\n", output.trim_end_matches('\n')).as_bytes());
    }
    if args.context {
        let prices = prices(&record, environment).await;
        return show_context(args.output, &console_style(environment), &record, &prices);
    }
    let mut text = Vec::new();
    match args.output {
        OutputForm::Json => {
            for event in &record.events {
                text.extend(output_line(event)?);
            }
        }
        OutputForm::Text => {
            let (style, prices) = (console_style(environment), prices(&record, environment).await);
            let shown = show_session(&style, &record.events, &prices, &mut text);
            shown.map_err(|error| CliError::failed(error.to_string()))?;
            let used = usage_text(&style, &usage_of(&record.events, &prices));
            if !used.is_empty() {
                text.extend_from_slice(format!("in all: {used}\n").as_bytes());
            }
        }
    }
    write_out(&text)
}

/// Shows what fills the context window of a session.
fn show_context(
    form: OutputForm,
    style: &ConsoleStyle,
    record: &SessionRecord,
    prices: &[(ModelRef, Price)],
) -> Result<ExitCode, CliError> {
    let context = SessionContext::new(record, prices)?;
    match form {
        OutputForm::Text => write_out(context.to_text(style).as_bytes()),
        OutputForm::Json => write_out(&context.to_json_lines()?),
    }
}

/// Prints a session as Markdown.
pub(crate) async fn export(
    prefix: &str,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let record = record(prefix, environment)?;
    write_out(to_markdown(&record, &prices(&record, environment).await).as_bytes())
}

/// Reads the record of a session, and reports damage on stderr.
pub(super) fn record(
    prefix: &str,
    environment: &ProcessEnvironment,
) -> Result<SessionRecord, CliError> {
    let store = product::session_store(environment)?;
    let id = store.find(prefix)?;
    let record = SessionRecord::read(store.as_ref(), &id, &redactor(environment, None))?;
    print_damage(&id, &record.damage);
    Ok(record)
}

/// Returns the prices of the models of a session; empty if the providers cannot be loaded.
pub(super) async fn prices(
    record: &SessionRecord,
    environment: &ProcessEnvironment,
) -> Vec<(ModelRef, Price)> {
    match product::models(environment, &[]) {
        Ok(models) => prices_of(&record.events, &models).await,
        Err(_) => Vec::new(),
    }
}

/// Repairs a session and the sessions of its subagents, and lists what was lost.
pub(crate) fn repair(prefix: &str, environment: &ProcessEnvironment) -> Result<ExitCode, CliError> {
    let store = product::session_store(environment)?;
    let root = store.find(prefix)?;
    let mut report = String::new();
    for id in session_subtree(store.as_ref(), &root)? {
        let SessionRepair { damage, copies: kept } = store.repair(&id)?;
        if damage.is_none() {
            continue;
        }
        let _ = writeln!(report, "session {id}: {damage}");
        if let Some(reason) = damage.header {
            let _ = writeln!(report, "  the header was rebuilt from the log ({reason})");
            if store.header(&id)?.crow().agent_lost {
                report.push_str(
                    "  the log does not name the agent: give --agent when you resume the session\n",
                );
            }
        }
        for LostLine { line, reason } in damage.lines {
            let _ = writeln!(report, "  line {line} is lost ({reason})");
        }
        for path in kept {
            let _ = writeln!(report, "  original kept in: {}", path.display());
        }
    }
    if report.is_empty() {
        report = format!("session {root}: nothing is damaged\n");
    }
    write_out(neutralise(&report).as_bytes())
}

/// Removes sessions. All ids are resolved before any session is removed; each removal is reported at once, so it is
/// known if a later one fails.
pub(crate) fn remove(
    prefixes: &[String],
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
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
        crow_app::host::remove(store.as_ref(), &snapshots, id)?;
        write_out(format!("removed {id}\n").as_bytes())?;
    }
    Ok(ExitCode::Done)
}

/// Gives a session another title.
pub(crate) fn rename(
    prefix: &str,
    title: &str,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let title = session_title(title);
    if title.is_empty() {
        return Err(CliError::usage("the title is empty"));
    }
    let store = product::session_store(environment)?;
    let id = store.find(prefix)?;
    let config = RuntimeConfig { store, ..RuntimeConfig::default() };
    AgentSession::rename(&config, &id, &title)?;
    write_line(&format!("{id} is called {title}"))
}

/// A listed session in JSON.
#[derive(Debug, Serialize)]
struct ListedSession {
    #[serde(flatten)]
    session: SessionMetadata,
    /// Usage, including that of its subagents.
    used: UsageReport,
}

/// Sums up the usage of a session and its subagents. The cost is `None` if the price of a model is unknown.
async fn used_by(session: &SessionMetadata, models: Option<&ProviderModels>) -> UsageReport {
    let crow = session.crow();
    if crow.spent.is_empty() {
        return UsageReport { tokens: crow.usage, cost_usd: None };
    }
    let (mut tokens, mut cost) = (TokenUsage::default(), Some(0.0));
    for ModelUsage { model, usage } in crow.spent {
        tokens += usage;
        let price = match models {
            Some(models) => models.price(&model).await,
            None => None,
        };
        cost = cost.zip(price).map(|(sum, price)| sum + price.cost(&usage));
    }
    UsageReport { tokens, cost_usd: cost }
}

fn row(metadata: &SessionMetadata, used: String, home: Option<&str>) -> SessionRow {
    let crow = metadata.crow();
    let cwd = match home.and_then(|home| crow.cwd.strip_prefix(home).ok()) {
        Some(below) => format!("~/{}", below.display()),
        None => crow.cwd.display().to_string(),
    };
    SessionRow {
        id: metadata.session_id.to_string(),
        updated: metadata.updated_at,
        title: if crow.rebuilt { format!("(damaged) {}", crow.title) } else { crow.title },
        usage: used,
        model: metadata.model_ref().to_string(),
        cwd,
    }
}
