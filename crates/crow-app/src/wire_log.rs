//! The wire log: requests to model providers and their replies, in a file below the data folder. Off unless
//! `CROW_WIRE_LOG` is set; bounded; without headers and without known secrets.

use std::{
    fs, io,
    io::{BufRead as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::PathBuf,
    sync::{Mutex, OnceLock, PoisonError},
};

use crow_core::redact::Redactor;
use crow_providers::{WireExchange, WireLog};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{environment::ProcessEnvironment, error::AppError, known_secrets::redactor};

/// Size at which the file is renamed and begun anew, in bytes. The one before is kept.
const FILE_BYTES: u64 = 64 << 20;

/// An attempt at a model call, as the wire log keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WireRecord {
    /// When the request was sent.
    pub time: Timestamp,
    /// The provider.
    pub provider: String,
    /// The address, without query.
    pub url: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// The body of the request.
    pub request: String,
    /// The body of the reply.
    pub response: String,
}

/// The file of the wire log.
#[derive(Debug)]
pub struct WireLogFile {
    path: PathBuf,
    environment: ProcessEnvironment,
    /// Made at the first use: it reads stored keys.
    redactor: OnceLock<Redactor>,
    /// Locked while a line is written.
    writing: Mutex<()>,
}

impl WireLogFile {
    /// Names the file of the user.
    pub fn of_user(environment: &ProcessEnvironment) -> Result<Self, AppError> {
        Ok(Self {
            path: environment.data_dir()?.join("wire").join("exchanges.jsonl"),
            environment: environment.clone(),
            redactor: OnceLock::new(),
            writing: Mutex::default(),
        })
    }

    /// Returns the records, the oldest first. Lines that cannot be read are passed over.
    ///
    /// # Errors
    /// Fails if the file cannot be read. A file that does not exist has no records.
    pub fn read(&self) -> io::Result<Vec<WireRecord>> {
        let mut records = Vec::new();
        for path in [self.path.with_extension("jsonl.1"), self.path.clone()] {
            let file = match fs::File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for line in io::BufReader::new(file).split(b'\n') {
                records.extend(serde_json::from_slice::<WireRecord>(&line?));
            }
        }
        Ok(records)
    }

    fn write(&self, record: &WireRecord) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = self.path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        if fs::metadata(&self.path).is_ok_and(|metadata| metadata.len() >= FILE_BYTES) {
            fs::rename(&self.path, self.path.with_extension("jsonl.1"))?;
        }
        let mut options = fs::OpenOptions::new();
        options.append(true).create(true).mode(0o600).open(&self.path)?.write_all(&line)
    }
}

impl WireLog for WireLogFile {
    fn record(&self, exchange: WireExchange) {
        let WireExchange { time, provider, url, attempt, duration_ms, request, response, error } =
            exchange;
        let mut record =
            WireRecord { time, provider, url, attempt, duration_ms, error, request, response };
        let known = self.redactor.get_or_init(|| redactor(&self.environment, None));
        for redactor in [known, &self.environment.late_secrets] {
            redactor.redact_string(&mut record.request);
            redactor.redact_string(&mut record.response);
            if let Some(error) = &mut record.error {
                redactor.redact_string(error);
            }
        }
        if let Err(error) = self.write(&record) {
            tracing::warn!(%error, "the wire log cannot be written");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn exchanges_are_kept_without_known_secrets_and_for_the_user_only() {
        let home = tempfile::tempdir().unwrap();
        let environment = ProcessEnvironment::with([
            ("HOME", home.path().to_str().unwrap()),
            ("ANTHROPIC_API_KEY", "sk-wire-0123456789abcdef"),
        ]);
        let log = WireLogFile::of_user(&environment).unwrap();
        assert_eq!(log.read().unwrap(), []);
        let exchange = |text: &str| WireExchange {
            time: Timestamp::UNIX_EPOCH,
            provider: "anthropic".to_owned(),
            url: "https://example.test/v1".to_owned(),
            attempt: 1,
            duration_ms: 5,
            request: text.to_owned(),
            response: "data: {}\n\n".to_owned(),
            error: None,
        };
        log.record(exchange("the key sk-wire-0123456789abcdef"));
        log.record(exchange("{}"));
        let records = log.read().unwrap();
        assert_eq!(records.len(), 2);
        assert!(!records[0].request.contains("sk-wire"), "{}", records[0].request);
        assert_eq!(fs::metadata(&log.path).unwrap().permissions().mode() & 0o777, 0o600);
        // A full file is begun anew; the one before is still read.
        fs::OpenOptions::new().write(true).open(&log.path).unwrap().set_len(FILE_BYTES).unwrap();
        log.record(exchange("new"));
        assert_eq!(log.read().unwrap().last().unwrap().request, "new");
        assert_eq!(log.read().unwrap().len(), 3);
    }
}
