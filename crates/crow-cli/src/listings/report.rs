//! The report of a session: one HTML page, and its file.

use std::{
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use crow_app::SessionRecord;
use crow_core::{
    ids::SessionId,
    model::{ModelRef, Price},
};
use crow_telemetry::report::SessionReport;
use jiff::tz::TimeZone;

use crate::error::CliError;

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
