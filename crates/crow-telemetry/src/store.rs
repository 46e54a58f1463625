//! The local store of spans: a file of JSON lines for each day, without content, bounded in size and age.
//!
//! It outlives the sessions: what a removed session used still counts.

use std::{
    fs, io,
    io::{BufRead as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::civil::Date;

use crate::{InternalTelemetry, RunTotals, SpanWork, TraceSpan, otel::ContentCapture};

/// Maximum size of the file of a day, in bytes.
const DAY_BYTES: u64 = 8 << 20;
/// Maximum size of all files, in bytes; the oldest are removed first.
const ALL_BYTES: u64 = 64 << 20;
/// Number of days that are kept.
const DAYS: usize = 400;
/// Maximum number of spans of a run that are kept.
const RUN_SPANS: usize = 5_000;
/// Maximum length of a line that is read, in bytes.
const LINE: usize = 64 << 10;

/// A folder with the spans of past runs.
#[derive(Debug)]
pub struct SpanStore {
    folder: PathBuf,
    content: ContentCapture,
}

impl SpanStore {
    /// Names the folder. It is made when the first run ends.
    pub fn new(folder: impl Into<PathBuf>, content: ContentCapture) -> Self {
        Self { folder: folder.into(), content }
    }

    /// Returns a consumer for a root session.
    pub fn consumer(self: Arc<Self>) -> SpanStoreConsumer {
        SpanStoreConsumer { store: self, spans: Vec::new() }
    }

    /// Adds the spans of a run to the file of the day on which it ended (UTC). Blocks for one write. A full file takes no
    /// more.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn append(&self, spans: &[TraceSpan]) -> io::Result<()> {
        let Some(last) = spans.last() else { return Ok(()) };
        let day = last.end.to_zoned(jiff::tz::TimeZone::UTC).date();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let path = self.folder.join(format!("{day}.jsonl"));
        let is_new = !path.exists();
        let mut lines = Vec::new();
        for span in spans {
            let span = match self.content {
                ContentCapture::Captured => span.clone(),
                ContentCapture::LeftOut => span.without_content(),
            };
            serde_json::to_writer(&mut lines, &span)?;
            lines.push(b'\n');
        }
        let mut options = fs::OpenOptions::new();
        let mut file = options.append(true).create(true).mode(0o600).open(&path)?;
        if file.metadata()?.len().saturating_add(lines.len() as u64) > DAY_BYTES {
            tracing::warn!(%day, "the telemetry of a run is not stored: the day is full");
            return Ok(());
        }
        // One write, so that the lines of two processes do not mix.
        file.write_all(&lines)?;
        if is_new {
            self.remove_old()?;
        }
        Ok(())
    }

    /// Reads the spans of these days and those between, and passes them on. Lines that cannot be read are passed over:
    /// they are of another version, or cut off.
    ///
    /// # Errors
    /// Fails if the folder or a file cannot be read. A folder that does not exist is empty.
    pub fn read(&self, from: Date, to: Date, mut each: impl FnMut(TraceSpan)) -> io::Result<()> {
        for (day, path, _) in self.files()? {
            if !(from..=to).contains(&day) {
                continue;
            }
            let mut reader = io::BufReader::new(fs::File::open(path)?);
            let mut line = Vec::new();
            loop {
                line.clear();
                // A hostile file has no line ends: what is read at once is bounded.
                let mut part = io::Read::take(&mut reader, LINE as u64);
                if part.read_until(b'\n', &mut line)? == 0 {
                    break;
                }
                if let Ok(span) = serde_json::from_slice(&line) {
                    each(span);
                }
            }
        }
        Ok(())
    }

    /// Returns the files with their days and sizes, the oldest first.
    fn files(&self) -> io::Result<Vec<(Date, PathBuf, u64)>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry?;
            let (path, metadata) = (entry.path(), entry.metadata()?);
            if let Some(day) = day_of(&path).filter(|_| metadata.is_file()) {
                files.push((day, path, metadata.len()));
            }
        }
        files.sort();
        Ok(files)
    }

    fn remove_old(&self) -> io::Result<()> {
        let mut kept = 0;
        for (number, (_, path, size)) in self.files()?.into_iter().rev().enumerate() {
            kept += size;
            if number >= DAYS || kept > ALL_BYTES {
                match fs::remove_file(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    Ok(()) | Err(_) => {}
                }
            }
        }
        Ok(())
    }
}

fn day_of(path: &Path) -> Option<Date> {
    path.file_name()?.to_str()?.strip_suffix(".jsonl")?.parse().ok()
}

/// Collects the spans of a run, and stores them when it ends.
#[derive(Debug, Clone)]
pub struct SpanStoreConsumer {
    store: Arc<SpanStore>,
    spans: Vec<TraceSpan>,
}

impl InternalTelemetry for SpanStoreConsumer {
    fn record_span(&mut self, span: &TraceSpan) {
        // The span of the run itself is the last one, and is always kept.
        if self.spans.len() < RUN_SPANS || matches!(span.work, SpanWork::Run(_)) {
            self.spans.push(span.clone().without_call_content());
        }
    }

    fn record_run_complete(&mut self, _: &TraceSpan, _: &RunTotals) {
        let spans = std::mem::take(&mut self.spans);
        if let Err(error) = self.store.append(&spans) {
            tracing::warn!(%error, "telemetry of a run is not stored");
        }
    }
}

#[cfg(test)]
mod tests {
    use crow_testkit::sample::Story;

    use super::*;
    use crate::TraceBuilder;

    fn spans() -> Vec<TraceSpan> {
        let mut story = Story::run();
        story.reply("", "I will.", &[]);
        TraceBuilder::spans(&story.events)
    }

    #[test]
    fn spans_are_stored_without_content_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = SpanStore::new(folder.path().join("telemetry"), ContentCapture::LeftOut);
        store.append(&spans()).unwrap();
        let file = fs::read_dir(folder.path().join("telemetry")).unwrap().next().unwrap().unwrap();
        // A line that was cut off, and one of another version.
        let mut open = fs::OpenOptions::new().append(true).open(file.path()).unwrap();
        open.write_all(b"{\"work\":{\"kind\":\"dance\"}}\n{\"trace").unwrap();
        let mut read = Vec::new();
        store.read(Date::MIN, Date::MAX, |span| read.push(span)).unwrap();
        let expected: Vec<_> = spans().iter().map(TraceSpan::without_content).collect();
        assert_eq!(read, expected);
        let has_prompt = |span: &TraceSpan| match &span.work {
            SpanWork::Run(run) => run.prompt.is_some(),
            _ => false,
        };
        assert!(spans().iter().any(has_prompt) && !read.iter().any(has_prompt));
    }

    #[test]
    fn a_full_day_takes_no_more_and_old_days_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = SpanStore::new(folder.path(), ContentCapture::LeftOut);
        for day in 1..=9 {
            let path = folder.path().join(format!("2020-01-0{day}.jsonl"));
            fs::File::create(path).unwrap().set_len(DAY_BYTES).unwrap();
        }
        store.append(&spans()).unwrap();
        let files = store.files().unwrap();
        let size: u64 = files.iter().map(|(_, _, size)| size).sum();
        assert!(size <= ALL_BYTES && files.len() == 8, "{files:?}");
        let (_, today, size) = files.last().unwrap().clone();
        fs::OpenOptions::new().write(true).open(&today).unwrap().set_len(DAY_BYTES - 10).unwrap();
        store.append(&spans()).unwrap();
        assert_eq!(fs::metadata(&today).unwrap().len(), DAY_BYTES - 10);
        assert!(size > 0);
    }
}
