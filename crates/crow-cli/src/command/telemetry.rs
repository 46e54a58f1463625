//! `trace`, `report`, `ledger` and `stats`: what sessions did, from their logs.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use crow_app::{ProcessEnvironment, SessionRecord, product};
use crow_console::{ConsoleStyle, ExitCode};
use crow_core::{
    ids::SessionId,
    model::{ModelRef, Models as _, Price},
    redact::Redactor,
};
use crow_runtime::{SessionFilter, SessionStore, UnusedSessions};
use crow_telemetry::{
    SpanStore, SpanWork, TraceBuilder, TraceSpan, otel::ContentCapture, report::SessionReport,
    statistics::Statistics,
};
use jiff::{Timestamp, ToSpan as _, civil::Date, tz::TimeZone};

use crate::{
    args::{LedgerArgs, OutputForm, ReportArgs, StatsArgs, TraceArgs},
    command::{
        CommandListing,
        sessions::{prices, record, resolved},
    },
    error::CliError,
    output::{SpanLine, StatisticsLine, output_line},
    session_ledger::{ledger_json, ledger_text},
    session_trace::trace_text,
    statistics_table::statistics_text,
    stored_sessions::last_session_of_current_dir,
    terminal::{console_style, write_out},
};

/// Shows the spans of a session as a waterfall.
pub(crate) fn trace(
    args: &TraceArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let record = record_of(args.session.as_deref(), environment)?;
    let spans = TraceBuilder::spans(&record.events);
    match args.output {
        OutputForm::Json => {
            let mut text = Vec::new();
            for span in &spans {
                text.extend(output_line(&SpanLine::new(span))?);
            }
            write_out(&text)
        }
        OutputForm::Text => {
            let shortest = Duration::from_millis(args.min_ms);
            write_out(trace_text(&console_style(environment), &spans, shortest).as_bytes())
        }
    }
}

/// Writes a session as one HTML file.
pub(crate) async fn report(
    args: &ReportArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let record = record_of(args.session.as_deref(), environment)?;
    let prices = prices(&record, environment).await;
    let html = report_html(&record, prices);
    let path = match &args.out {
        Some(path) if path.as_os_str() == "-" => return write_out(html.as_bytes()),
        Some(path) => path.clone(),
        None => default_report_file(&record.metadata.session_id),
    };
    let path = environment.current_dir()?.join(path);
    write_report(&path, &html)?;
    write_out(format!("{}\n", path.display()).as_bytes())
}

/// Returns a session as one HTML page.
pub(crate) fn report_html(record: &SessionRecord, prices: Vec<(ModelRef, Price)>) -> String {
    let crow = record.metadata.crow();
    SessionReport {
        session_id: &record.metadata.session_id,
        title: &crow.title,
        cwd: &crow.cwd.display().to_string(),
        model: &record.metadata.model_ref().to_string(),
        events: &record.events,
        prices: &prices.into_iter().collect(),
        zone: TimeZone::system(),
        version: env!("CARGO_PKG_VERSION"),
    }
    .to_html()
}

/// Returns the file of a report whose user names none.
pub(crate) fn default_report_file(id: &SessionId) -> PathBuf {
    PathBuf::from(format!("crow-report-{id}.html"))
}

/// Writes a report in place of what has its name.
pub(crate) fn write_report(path: &Path, html: &str) -> Result<(), CliError> {
    write_private(path, html.as_bytes()).map_err(|error| {
        // The error names the temporary file.
        let reason = match error.kind() {
            ErrorKind::NotFound => "its folder does not exist".to_owned(),
            kind => kind.to_string(),
        };
        CliError::failed(format!("cannot write {}: {reason}", path.display()))
    })
}

/// Writes a file that only its owner can read, in place of what has its name: a report has what the session has.
fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    file.persist(path)?;
    Ok(())
}

/// Shows to whom the tokens of each request belong, and what they cost.
pub(crate) async fn ledger(
    args: &LedgerArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let record = record_of(args.session.as_deref(), environment)?;
    let prices: BTreeMap<ModelRef, Price> =
        prices(&record, environment).await.into_iter().collect();
    match args.output {
        OutputForm::Text => {
            let style = console_style(environment);
            write_out(ledger_text(&style, &record, args.request, &prices)?.as_bytes())
        }
        OutputForm::Json => write_out(&ledger_json(&record, args.request, &prices)?),
    }
}

/// Reads the record of the named session, or else of the last one of the current directory.
fn record_of(
    prefix: Option<&str>,
    environment: &ProcessEnvironment,
) -> Result<SessionRecord, CliError> {
    if let Some(prefix) = prefix {
        return record(prefix, environment);
    }
    let store = product::session_store(environment)?;
    let hint = "name one; `crow-agent sessions list` shows them";
    let id = last_session_of_current_dir(store.as_ref(), environment)
        .map_err(|error| error.hint(hint))?;
    record(id.as_str(), environment)
}

/// Shows sums over the sessions of the last days.
pub(crate) async fn stats(
    args: &StatsArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    statistics(args, &console_style(environment), environment).await?.print()
}

/// Sums up the sessions of the last days.
pub(crate) async fn statistics(
    args: &StatsArgs,
    style: &ConsoleStyle,
    environment: &ProcessEnvironment,
) -> Result<CommandListing, CliError> {
    let now = Timestamp::now();
    let zone = TimeZone::system();
    let first_day = now.to_zoned(zone.clone()).start_of_day();
    let first_day =
        first_day.and_then(|today| today.checked_sub((i64::from(args.days) - 1).days()));
    let since = first_day.map_err(|error| CliError::usage(format!("--days: {error}")))?.timestamp();
    let cwd = args.cwd.as_deref().map(|cwd| resolved(cwd, environment)).transpose()?;
    let mut messages = Vec::new();
    let sessions = sessions_since(since, cwd, environment, &mut messages)?;
    let prices = prices_of_spans(&sessions, environment).await;
    let mut statistics = Statistics::new(args.by.into(), zone, prices);
    for (_, project, spans) in &sessions {
        statistics.add_session(project, spans);
    }
    let text = match args.output {
        OutputForm::Json => {
            let mut text = String::new();
            for (name, row) in statistics.rows() {
                text.push_str(&String::from_utf8_lossy(&output_line(&StatisticsLine::row(
                    name, row,
                ))?));
            }
            let total = StatisticsLine::total(statistics.total());
            text.push_str(&String::from_utf8_lossy(&output_line(&total)?));
            text
        }
        OutputForm::Text => {
            let home = environment.var("HOME");
            let today = now.to_zoned(TimeZone::system()).date();
            statistics_text(style, &statistics, args, (today, home.as_deref()))
        }
    };
    Ok(CommandListing { text, messages })
}

/// Returns the spans of the sessions since a time, each with its directory: all, or those of `cwd`.
fn sessions_since(
    since: Timestamp,
    cwd: Option<PathBuf>,
    environment: &ProcessEnvironment,
    messages: &mut Vec<String>,
) -> Result<Vec<(SessionId, String, Vec<TraceSpan>)>, CliError> {
    let is_of_all = cwd.is_none();
    let store = product::session_store(environment)?;
    let filter = SessionFilter { cwd, limit: None, after: None, unused: UnusedSessions::LeftOut };
    let mut unreadable = 0;
    let mut sessions: Vec<(SessionId, String, Vec<TraceSpan>)> = Vec::new();
    for session in store.list(&filter)? {
        if session.updated_at < since {
            continue;
        }
        let id = session.session_id.clone();
        // Nothing of the contents is shown, so that nothing must be redacted.
        match SessionRecord::read(store.as_ref(), &id, &Redactor::default()) {
            Ok(record) => {
                let mut spans = TraceBuilder::spans(&record.events);
                // A copy of a session has the events of the original, too.
                let begin = since.max(session.created_at);
                spans.retain(|span| span.start >= begin);
                sessions.push((id, session.crow().cwd.display().to_string(), spans));
            }
            Err(_) => unreadable += 1,
        }
    }
    if unreadable > 0 {
        messages.push(format!("{unreadable} sessions cannot be read and are not counted"));
    }
    if is_of_all {
        sessions.extend(removed_sessions(&*store, since, environment, messages)?);
    }
    Ok(sessions)
}

/// Returns the spans of sessions that are removed by now, as far as the local store has them.
fn removed_sessions(
    store: &dyn SessionStore,
    since: Timestamp,
    environment: &ProcessEnvironment,
    messages: &mut Vec<String>,
) -> Result<Vec<(SessionId, String, Vec<TraceSpan>)>, CliError> {
    let all = store.list(&SessionFilter::default())?;
    let known: BTreeSet<&SessionId> = all.iter().map(|session| &session.session_id).collect();
    let spans = SpanStore::new(environment.data_dir()?.join("telemetry"), ContentCapture::LeftOut);
    let from = since.to_zoned(TimeZone::UTC).date();
    let mut removed: BTreeMap<SessionId, Vec<TraceSpan>> = BTreeMap::new();
    let read = spans.read(from, Date::MAX, |span| {
        if span.start >= since && !known.contains(&span.root_id) {
            removed.entry(span.root_id.clone()).or_default().push(span);
        }
    });
    if let Err(error) = read {
        messages.push(format!("the local store of telemetry cannot be read: {error}"));
    }
    let name = || "(removed sessions)".to_owned();
    Ok(removed.into_iter().map(|(id, spans)| (id, name(), spans)).collect())
}

/// Returns the prices of the models in these spans; empty if the providers cannot be loaded.
async fn prices_of_spans(
    sessions: &[(SessionId, String, Vec<TraceSpan>)],
    environment: &ProcessEnvironment,
) -> BTreeMap<ModelRef, Price> {
    let mut prices = BTreeMap::new();
    let Ok(models) = product::models(environment, &[]) else { return prices };
    let mut seen = BTreeSet::new();
    for span in sessions.iter().flat_map(|(_, _, spans)| spans) {
        if let SpanWork::ModelCall(call) = &span.work
            && seen.insert(call.model.clone())
            && let Some(price) = models.price(&call.model).await
        {
            prices.insert(call.model.clone(), price);
        }
    }
    prices
}
