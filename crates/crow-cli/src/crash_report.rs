//! Reports of panics: a file for each, without known secrets, and one line on standard error.
//!
//! A panic of a tool or task is caught where it happens, and the session goes on; its report is written all the same.

use std::{
    backtrace::Backtrace,
    fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    panic::{self, PanicHookInfo},
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use crow_app::{ProcessEnvironment, known_secrets::redactor};
use jiff::Timestamp;

use crate::terminal::print_message;

/// Maximum number of reports that are kept, and that one process writes.
const REPORTS: usize = 20;

/// Writes a report for each panic from here on.
pub(crate) fn report_crashes(environment: &ProcessEnvironment) {
    let Ok(data) = environment.data_dir() else { return };
    let (folder, environment) = (data.join("crashes"), environment.clone());
    let written = AtomicUsize::new(0);
    panic::set_hook(Box::new(move |info| {
        let message = message(info);
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        if written.fetch_add(1, Ordering::Relaxed) >= REPORTS {
            return print_message(&format!("internal error at {place}"));
        }
        let mut text = format!(
            "crow-agent {} on {} {}\n{}\nthread {}\n{place}: {message}\n\n{}\n",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::OS,
            std::env::consts::ARCH,
            Timestamp::now(),
            std::thread::current().name().unwrap_or("without a name"),
            Backtrace::force_capture(),
        );
        redactor(&environment, None).redact_string(&mut text);
        environment.late_secrets.redact_string(&mut text);
        match write(&folder, &text) {
            Ok(path) => print_message(&format!(
                "internal error at {place}; a report without known secrets is in {}",
                path.display()
            )),
            Err(error) => {
                print_message(&format!("internal error at {place} (no report: {error})"));
            }
        }
    }));
}

fn message(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Writes a report that only the user can read, and removes the oldest ones.
fn write(folder: &Path, text: &str) -> io::Result<PathBuf> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let name = format!("{}-{}", Timestamp::now().strftime("%Y%m%d-%H%M%S%.6f"), std::process::id());
    let path = folder.join(format!("{name}.txt"));
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(&path)?.write_all(text.as_bytes())?;
    let mut reports: Vec<PathBuf> =
        fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    reports.sort();
    for old in reports.iter().rev().skip(REPORTS) {
        // Another process may have removed it.
        drop(fs::remove_file(old));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_reports_are_kept_and_only_the_user_can_read_them() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let crashes = folder.path().join("crashes");
        let mut last = PathBuf::new();
        for number in 0..REPORTS + 5 {
            last = write(&crashes, &number.to_string()).unwrap();
        }
        assert_eq!(fs::read_dir(&crashes).unwrap().count(), REPORTS);
        assert_eq!(fs::read_to_string(&last).unwrap(), (REPORTS + 4).to_string());
        assert_eq!(fs::metadata(&last).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&crashes).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
