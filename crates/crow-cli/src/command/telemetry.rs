//! `trace`, `report`, `ledger` and `stats`: what sessions did, from their logs.

use std::{collections::BTreeMap, time::Duration};

use crow_app::{ProcessEnvironment, SessionRecord, product};
use crow_console::ExitCode;
use crow_core::model::{ModelRef, Price};
use crow_telemetry::TraceBuilder;

use crate::{
    args::{LedgerArgs, OutputForm, ReportArgs, StatsArgs, TraceArgs},
    command::sessions::{prices, record, resolved},
    error::CliError,
    listings::{default_report_file, report_html, statistics, write_report},
    output::{SpanLine, output_line},
    session_ledger::{ledger_json, ledger_text},
    session_trace::trace_text,
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
    let cwd = args.cwd.as_deref().map(|cwd| resolved(cwd, environment)).transpose()?;
    statistics(args, cwd, &console_style(environment), environment).await?.print()
}
