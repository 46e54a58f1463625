//! The program's own log, on standard error or in a file: off unless `CROW_LOG` is set, and without known secrets.

use std::{
    fmt, fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use crow_app::{ProcessEnvironment, known_secrets::redactor};
use crow_core::redact::Redactor;
use crow_text::neutralise;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    EnvFilter,
    filter::LevelFilter,
    fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields, format::Writer},
    registry::{LookupSpan, SpanRef},
};

use crate::terminal::{console_style, print_message};

/// Prefix of the targets of Crow's own crates.
const OWN_TARGETS: &str = "crow";

/// Ends all styles of the text before.
const RESET: &str = "\x1b[0m";

/// Maximum size of a log file, in bytes; the one before is kept beside it.
const FILE_BYTES: u64 = 10 << 20;

/// Enables the log if `CROW_LOG` is set, as in `CROW_LOG=debug`. It goes to the file in `CROW_LOG_FILE`, or else to
/// standard error.
pub(crate) fn start_log(environment: &ProcessEnvironment) {
    let Some(filter) = environment.var("CROW_LOG") else { return };
    let redactor = redactor(environment, None);
    let added_secrets = environment.late_secrets.clone();
    let file = environment.var("CROW_LOG_FILE").map(|path| RotatedFile::open(PathBuf::from(path)));
    let target = match file.transpose() {
        Ok(file) => file.map(|file| Arc::new(Mutex::new(file))),
        Err(error) => {
            print_message(&format!("CROW_LOG_FILE cannot be written: {error}"));
            None
        }
    };
    let has_colour = target.is_none() && console_style(environment).colour;
    let writer = move || RedactedLog {
        redactors: [redactor.clone(), added_secrets.clone()],
        file: target.clone(),
    };
    tracing_subscriber::fmt()
        .with_ansi(false)
        .event_format(LogLineFormat { started: Instant::now(), has_colour })
        .with_env_filter(EnvFilter::builder().parse_lossy(directives(&filter)))
        .with_writer(writer)
        .init();
}

/// Returns the directives of a filter. A level alone, such as `debug`, applies to Crow: libraries log warnings, unless
/// the level is `trace` or another directive names them. Some libraries log the messages that they pass on.
fn directives(filter: &str) -> String {
    let directives = filter.split(',').map(|directive| match directive.trim().parse() {
        Ok(level @ (LevelFilter::INFO | LevelFilter::DEBUG)) => {
            format!("warn,{OWN_TARGETS}={level}")
        }
        Ok(_) | Err(_) => directive.to_owned(),
    });
    // This module logs codes and tokens.
    directives.chain(["rmcp::transport::auth=warn".to_owned()]).collect::<Vec<_>>().join(",")
}

/// Format of a line: the time since the start, the level, the names of the spans around the event, the event, and the
/// fields of the spans. What is most specific comes first: the fields of the innermost span precede those of the run and
/// the session. Libraries are named by their target.
struct LogLineFormat {
    started: Instant,
    has_colour: bool,
}

impl LogLineFormat {
    /// Returns an escape sequence, or nothing if the log has no colours.
    fn style(&self, sequence: &'static str) -> &'static str {
        if self.has_colour { sequence } else { "" }
    }
}

impl<S, N> FormatEvent<S, N> for LogLineFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (metadata, reset) = (event.metadata(), self.style(RESET));
        // 1) Time and level.
        let colour = self.style(match *metadata.level() {
            Level::ERROR => "\x1b[31m",
            Level::WARN => "\x1b[33m",
            Level::INFO => "\x1b[32m",
            Level::DEBUG => "\x1b[34m",
            Level::TRACE => "\x1b[35m",
        });
        let seconds = self.started.elapsed().as_secs_f64();
        write!(writer, "{seconds:8.3}s {colour}{:>5}{reset} ", metadata.level())?;
        // 2) Where it happened.
        let spans: Vec<_> = context.event_scope().into_iter().flatten().collect();
        let names: Vec<_> = spans.iter().rev().map(SpanRef::name).collect();
        if !names.is_empty() {
            write!(writer, "{}: ", names.join(":"))?;
        }
        if !metadata.target().starts_with(OWN_TARGETS) {
            write!(writer, "{}: ", metadata.target())?;
        }
        // 3) What happened, and the fields of the spans, from the innermost one on.
        let mut fields = String::new();
        context.format_fields(Writer::new(&mut fields), event)?;
        writer.write_str(&harmless_line(&fields))?;
        writer.write_str(self.style("\x1b[2m"))?;
        for span in &spans {
            let extensions = span.extensions();
            if let Some(fields) = extensions.get::<FormattedFields<N>>()
                && !fields.is_empty()
            {
                write!(writer, " {}", harmless_line(fields))?;
            }
        }
        writeln!(writer, "{reset}")
    }
}

/// Returns a text without escape sequences and line ends: a server may have written it.
fn harmless_line(text: &str) -> String {
    neutralise(text).replace('\n', "\\n")
}

/// A file that is renamed and begun anew when it is full.
struct RotatedFile {
    path: PathBuf,
    file: fs::File,
    /// Its size; none if it is no regular file.
    bytes: Option<u64>,
}

impl RotatedFile {
    fn open(path: PathBuf) -> io::Result<Self> {
        let file = open_private(&path)?;
        let metadata = file.metadata()?;
        // Only regular files are rotated: not a terminal, not `/dev/null`.
        let bytes = metadata.is_file().then_some(metadata.len());
        Ok(Self { path, file, bytes })
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.bytes.is_some_and(|bytes| bytes >= FILE_BYTES) {
            let mut before = self.path.clone().into_os_string();
            before.push(".1");
            fs::rename(&self.path, before)?;
            self.file = open_private(&self.path)?;
            self.bytes = Some(0);
        }
        self.bytes = self.bytes.map(|bytes| bytes + line.len() as u64);
        self.file.write_all(line)
    }
}

/// Opens a file to append to it. A new one is readable by the user only.
fn open_private(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Writer of the log that redacts secrets. Expects each write to be a whole line.
struct RedactedLog {
    redactors: [Redactor; 2],
    /// The file; standard error without one.
    file: Option<Arc<Mutex<RotatedFile>>>,
}

impl io::Write for RedactedLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut text = String::from_utf8_lossy(line).into_owned();
        for redactor in &self.redactors {
            redactor.redact_string(&mut text);
        }
        match &self.file {
            Some(file) => {
                file.lock().unwrap_or_else(PoisonError::into_inner).write(text.as_bytes())?;
            }
            None => io::stderr().write_all(text.as_bytes())?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_renamed_and_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("crow.log");
        fs::write(&path, "earlier\n").unwrap();
        let mut file = RotatedFile::open(path.clone()).unwrap();
        file.write(b"one\n").unwrap();
        file.bytes = Some(FILE_BYTES);
        file.write(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
        let before = folder.path().join("crow.log.1");
        assert_eq!(fs::read_to_string(before).unwrap(), "earlier\none\n");
    }

    #[test]
    fn a_level_alone_applies_to_crow_unless_it_is_trace() {
        for (filter, expected) in [
            ("debug", "warn,crow=debug"),
            ("info, hyper_util=debug", "warn,crow=info, hyper_util=debug"),
            ("4", "warn,crow=debug"),
            ("trace", "trace"),
            ("error", "error"),
            ("off", "off"),
            ("crow_mcp=debug", "crow_mcp=debug"),
            ("[call{tool=\"bash\"}]=debug", "[call{tool=\"bash\"}]=debug"),
        ] {
            let expected = format!("{expected},rmcp::transport::auth=warn");
            assert_eq!(directives(filter), expected, "{filter}");
        }
    }
}
