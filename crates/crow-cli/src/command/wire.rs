//! `wire`: requests to model providers and their replies, byte by byte, as the wire log has them.

use std::{fmt::Write as _, time::Duration};

use crow_app::{ProcessEnvironment, WireLogFile, WireRecord};
use crow_console::{ExitCode, words::duration, wrap::shorten_end};
use crow_text::{neutralise, one_line};
use jiff::tz::TimeZone;

use crate::{
    args::{OutputForm, WireArgs},
    error::CliError,
    output::{WireLine, output_line},
    terminal::{console_style, write_out},
};

/// Lists the recorded requests, or shows one whole.
pub(crate) fn wire(
    args: &WireArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let log = WireLogFile::of_user(environment)?;
    let records = log
        .read()
        .map_err(|error| CliError::failed(format!("the wire log cannot be read: {error}")))?;
    if records.is_empty() {
        return write_out(
            b"No request was recorded. `CROW_WIRE_LOG=1 crow-agent run ...` records them.\n",
        );
    }
    let chosen = match args.number {
        None => None,
        Some(number) => {
            let record = number.checked_sub(1).and_then(|at| records.get(at));
            let missing = || {
                CliError::usage(format!(
                    "there is no request {number}; {} are recorded",
                    records.len()
                ))
            };
            Some(record.ok_or_else(missing)?)
        }
    };
    if args.output == OutputForm::Json {
        let shown: Vec<&WireRecord> =
            chosen.map_or_else(|| records.iter().collect(), |one| vec![one]);
        let mut text = Vec::new();
        for record in shown {
            text.extend(output_line(&WireLine::new(record))?);
        }
        return write_out(&text);
    }
    let mut text = String::new();
    if let Some(record) = chosen {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}\n", heading(record));
        let request = serde_json::from_str::<serde_json::Value>(&record.request)
            .and_then(|value| serde_json::to_string_pretty(&value))
            .unwrap_or_else(|_| record.request.clone());
        let _ = writeln!(text, "{}\n\n{}", neutralise(&request), neutralise(&record.response));
    } else {
        let style = console_style(environment);
        for (index, record) in
            records.iter().enumerate().skip(records.len().saturating_sub(args.last))
        {
            let line = format!("{:>4}  {}", index + 1, heading(record));
            let _ = writeln!(text, "{}", shorten_end(&line, style.width, style.glyphs));
        }
    }
    write_out(text.as_bytes())
}

fn heading(record: &WireRecord) -> String {
    let time = record.time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string();
    let attempt =
        if record.attempt > 1 { format!(", attempt {}", record.attempt) } else { String::new() };
    let end = match &record.error {
        Some(error) => format!("failed: {error}"),
        None => format!("{} B back", record.response.len()),
    };
    one_line(&format!(
        "{time}  {} {}{attempt}: {} B sent, {end}, {}",
        record.provider,
        record.url,
        record.request.len(),
        duration(Duration::from_millis(record.duration_ms))
    ))
}
