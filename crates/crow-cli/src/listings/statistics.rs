//! Statistics of stored sessions.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use crow_app::{ProcessEnvironment, SessionRecord, product};
use crow_console::ConsoleStyle;
use crow_core::{
    ids::SessionId,
    model::{ModelRef, Models as _, Price},
    redact::Redactor,
};
use crow_runtime::{SessionFilter, SessionStore, UnusedSessions};
use crow_telemetry::{
    SpanStore, SpanWork, TraceBuilder, TraceSpan, otel::ContentCapture, statistics::Statistics,
};
use jiff::{Timestamp, ToSpan as _, civil::Date, tz::TimeZone};

use super::CommandListing;
use crate::{
    args::{OutputForm, StatsArgs},
    error::CliError,
    output::{StatisticsLine, output_line},
    statistics_table::statistics_text,
};

/// Sums up the sessions of the last days: of the directory `cwd`, or of all.
pub(crate) async fn statistics(
    args: &StatsArgs,
    cwd: Option<PathBuf>,
    style: &ConsoleStyle,
    environment: &ProcessEnvironment,
) -> Result<CommandListing, CliError> {
    let now = Timestamp::now();
    let zone = TimeZone::system();
    let first_day = now.to_zoned(zone.clone()).start_of_day();
    let first_day =
        first_day.and_then(|today| today.checked_sub((i64::from(args.days) - 1).days()));
    let since = first_day.map_err(|error| CliError::usage(format!("--days: {error}")))?.timestamp();
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
