//! The process's environment: variables, current directory, terminals and time zone. Only this file reads it.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use crow_core::redact::Redactor;
use jiff::{Timestamp, civil::Date, tz::TimeZone};

use crate::error::AppError;

/// File with the rules of the machine's time zone.
const LOCAL_ZONE: &str = "/etc/localtime";

/// Snapshot of the process's environment.
#[derive(Debug, Clone)]
pub struct ProcessEnvironment {
    vars: Arc<BTreeMap<OsString, OsString>>,
    current_dir: Option<PathBuf>,
    /// Secrets that the process received after its start, to be redacted in its log.
    pub late_secrets: Redactor,
    /// True if standard input is a terminal.
    pub stdin_is_terminal: bool,
    /// True if standard output is a terminal.
    pub stdout_is_terminal: bool,
    /// True if standard error is a terminal.
    pub stderr_is_terminal: bool,
}

impl ProcessEnvironment {
    /// Reads the process's environment.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the environment"
    )]
    pub fn from_process() -> Self {
        Self {
            vars: Arc::new(env::vars_os().collect()),
            current_dir: env::current_dir().ok(),
            late_secrets: Redactor::default(),
            stdin_is_terminal: io::stdin().is_terminal(),
            stdout_is_terminal: io::stdout().is_terminal(),
            stderr_is_terminal: io::stderr().is_terminal(),
        }
    }

    /// Creates an environment with these variables, without a current directory and terminals.
    pub fn with<'a>(vars: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let vars = vars.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self {
            vars: Arc::new(vars.collect()),
            current_dir: None,
            late_secrets: Redactor::default(),
            stdin_is_terminal: false,
            stdout_is_terminal: false,
            stderr_is_terminal: false,
        }
    }

    /// Returns the value of a variable; `None` if it is unset, empty or not UTF-8.
    pub fn var(&self, name: &str) -> Option<String> {
        let value = self.vars.get(std::ffi::OsStr::new(name))?.to_str()?;
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// Returns this environment with another current directory, as if the process had been started there.
    #[must_use]
    pub fn with_current_dir(self, cwd: impl Into<PathBuf>) -> Self {
        Self { current_dir: Some(cwd.into()), ..self }
    }

    /// Returns the current directory at the start of the process. Fails if it did not exist.
    pub fn current_dir(&self) -> Result<&Path, AppError> {
        self.current_dir.as_deref().ok_or_else(|| {
            AppError::usage("the current directory no longer exists")
                .hint("change to an existing directory, or give --cwd")
        })
    }

    /// Returns the folder of the configuration.
    pub fn config_dir(&self) -> Result<PathBuf, AppError> {
        self.base_dir("XDG_CONFIG_HOME", ".config")
    }

    /// Returns the folder of sessions and other data.
    pub fn data_dir(&self) -> Result<PathBuf, AppError> {
        self.base_dir("XDG_DATA_HOME", ".local/share")
    }

    /// Returns the folder `crow-agent` below an XDG base directory. A relative path in the variable is ignored, as the
    /// specification demands.
    fn base_dir(&self, variable: &str, below_home: &str) -> Result<PathBuf, AppError> {
        let given = self.var(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = given.or_else(|| self.var("HOME").map(|home| Path::new(&home).join(below_home)));
        let base = base.ok_or_else(|| {
            AppError::usage(format!(
                "neither {variable} nor HOME is set, so there is no directory for files"
            ))
            .hint(format!("set HOME, or set {variable} to an absolute path"))
        })?;
        Ok(base.join("crow-agent"))
    }

    /// Expands `~` at the start of a path to the home directory. Returns `None` if the path is then not absolute.
    pub(crate) fn absolute_path(&self, path: &Path) -> Option<PathBuf> {
        match (path.strip_prefix("~"), self.var("HOME")) {
            (Ok(rest), Some(home)) => Some(Path::new(&home).join(rest)),
            _ => Some(path.to_owned()).filter(|path| path.is_absolute()),
        }
    }

    /// Returns today's date in the user's time zone.
    pub(crate) fn today(&self) -> Date {
        Timestamp::now().to_zoned(self.zone(Path::new(LOCAL_ZONE))).date()
    }

    /// Returns the local time zone. Reads only the rules in the file `local`: the library would search all zones for
    /// the name, which takes longer than everything else at a start.
    fn zone(&self, local: &Path) -> TimeZone {
        if self.is_set("TZ") {
            return TimeZone::system();
        }
        let rules = fs::read(local).ok();
        let zone = rules.and_then(|rules| TimeZone::tzif("local", &rules).ok());
        zone.unwrap_or_else(TimeZone::system)
    }

    /// Returns true if a variable is set, even if it is empty or not UTF-8.
    pub fn is_set(&self, name: &str) -> bool {
        self.vars.contains_key(std::ffi::OsStr::new(name))
    }

    /// Returns the variables whose name and value are UTF-8, secrets included: for a program that is started in the
    /// user's place.
    pub fn variables(&self) -> BTreeMap<String, String> {
        self.utf8_variables().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Returns the variables whose name and value are UTF-8.
    pub(crate) fn utf8_variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.vars.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(vars: &[(&str, &str)]) -> ProcessEnvironment {
        ProcessEnvironment::with(vars.iter().copied())
    }

    #[test]
    fn a_path_is_absolute_or_below_the_home_directory() {
        let home = environment(&[("HOME", "/users/a")]);
        let absolute = |path: &str| home.absolute_path(Path::new(path));
        assert_eq!(absolute("~/x"), Some("/users/a/x".into()));
        assert_eq!(absolute("/x"), Some("/x".into()));
        assert_eq!(absolute("x"), None);
        assert_eq!(environment(&[]).absolute_path(Path::new("~/x")), None);
    }

    #[test]
    fn folders_follow_xdg_and_ignore_relative_paths() {
        let table = [
            (vec![("HOME", "/h")], "/h/.local/share/crow-agent"),
            (vec![("HOME", "/h"), ("XDG_DATA_HOME", "/d")], "/d/crow-agent"),
            (vec![("HOME", "/h"), ("XDG_DATA_HOME", "d")], "/h/.local/share/crow-agent"),
            (vec![("XDG_DATA_HOME", "/d")], "/d/crow-agent"),
        ];
        for (vars, expected) in table {
            assert_eq!(environment(&vars).data_dir().unwrap(), Path::new(expected), "{vars:?}");
        }
        assert!(environment(&[]).data_dir().is_err());
    }

    /// Returns the `TZif` rules of a zone that is always at UTC-5.
    fn five_hours_behind() -> Vec<u8> {
        let mut header = b"TZif2".to_vec();
        header.extend([0; 15]);
        // One type of local time, and four bytes of its name.
        header.extend([0_u32, 0, 0, 0, 1, 4].into_iter().flat_map(u32::to_be_bytes));
        let mut block = header;
        block.extend((-5 * 3600_i32).to_be_bytes());
        block.extend(b"\0\0EST\0");
        [block.as_slice(), &block, b"\nEST5\n"].concat()
    }

    #[test]
    fn the_zone_is_that_of_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("localtime");
        fs::write(&file, five_hours_behind()).unwrap();
        let early = "2026-11-22T03:00:00Z".parse::<Timestamp>().unwrap();
        let date = |zone: TimeZone| early.to_zoned(zone).date().to_string();
        assert_eq!(date(environment(&[]).zone(&file)), "2026-11-21");
        fs::write(&file, "no rules").unwrap();
        assert_eq!(environment(&[]).zone(&file), TimeZone::system());
        assert_eq!(environment(&[("TZ", "UTC")]).zone(&file), TimeZone::system());
    }

    #[test]
    fn an_empty_variable_is_not_set() {
        assert_eq!(environment(&[("A", "")]).var("A"), None);
    }
}
