//! The user's settings of the sandbox, `[sandbox]` in `config.toml`, and the flags above them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use crow_runtime::{AllowedHosts, HostPattern, Network, ProcessLimits, SandboxConfig};
use serde::Deserialize;

use super::hidden::hidden;
use crate::{CliError, Environment};

const FILE: &str = "config.toml";
const GIB: u64 = 1 << 30;

/// What holds commands.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SandboxOptions {
    /// Let commands reach a host, as example.org, *.example.org or example.org:8080
    #[arg(long, value_name = "HOST")]
    pub allow_host: Vec<String>,
    /// Let commands do whatever you can do: nothing holds them
    #[arg(long, conflicts_with = "allow_host")]
    pub no_sandbox: bool,
}

/// The whole file, of which only one table is known so far.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    #[serde(default)]
    sandbox: Table,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// Hosts that commands may reach.
    #[serde(default)]
    allow_hosts: Vec<String>,
    /// `true` lets them reach everything.
    #[serde(default)]
    network: bool,
    /// Folders beside the project that they may change.
    #[serde(default)]
    writable: Vec<PathBuf>,
    /// Hidden places that they may read.
    #[serde(default)]
    readable: Vec<PathBuf>,
    /// Further places that they may not read.
    #[serde(default)]
    hidden: Vec<PathBuf>,
    /// Protected paths in the project that they may change.
    #[serde(default)]
    unprotected: Vec<PathBuf>,
    memory_gib: Option<u64>,
    processes: Option<u64>,
}

/// Returns the sandbox of commands; none if the user wants none.
pub(crate) fn sandbox(
    options: &SandboxOptions,
    environment: &Environment,
) -> Result<Option<SandboxConfig>, CliError> {
    if options.no_sandbox {
        return Ok(None);
    }
    let path = environment.config_dir()?.join(FILE);
    let table = read(&path)?;
    let home = environment.var("HOME").map(PathBuf::from);
    let place = |path: PathBuf| resolve(path, home.as_deref());
    let places = |paths: Vec<PathBuf>| paths.into_iter().map(place).collect::<Result<Vec<_>, _>>();
    let in_file = |error: String| bad(&path, &error);
    let mut config = SandboxConfig::new(environment.data_dir()?.join("sandbox"));
    config.hidden = hidden(environment, &places(table.readable).map_err(in_file)?);
    config.hidden.extend(places(table.hidden).map_err(in_file)?);
    config.writable = places(table.writable).map_err(in_file)?;
    if let Some(path) = table.unprotected.iter().find(|path| path.is_absolute()) {
        let name = path.display();
        return Err(in_file(format!(
            "sandbox.unprotected: {name} must be relative to the project"
        )));
    }
    config.unprotected = table.unprotected;
    let usual = ProcessLimits::default();
    config.limits = ProcessLimits {
        processes: table.processes.unwrap_or(usual.processes),
        memory: table.memory_gib.map_or(usual.memory, |gib| gib.saturating_mul(GIB)),
    };
    let mut hosts = Vec::new();
    for host in table.allow_hosts {
        let parsed = host.parse::<HostPattern>();
        hosts.push(parsed.map_err(|error| in_file(format!("sandbox.allow_hosts: {error}")))?);
    }
    for host in &options.allow_host {
        let parsed = host.parse::<HostPattern>();
        hosts.push(parsed.map_err(|error| CliError::usage(format!("--allow-host: {error}")))?);
    }
    config.network = match (table.network, hosts.is_empty()) {
        (true, _) => Network::All,
        (false, true) => Network::Loopback,
        (false, false) => Network::Hosts(AllowedHosts::new(hosts)),
    };
    Ok(Some(config))
}

fn read(path: &Path) -> Result<Table, CliError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Table::default()),
        Err(error) => {
            return Err(CliError::usage(format!("cannot read {}: {error}", path.display())));
        }
    };
    let settings: Settings = toml::from_str(&text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let before = text.get(..start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        CliError {
            code: "config",
            ..CliError::usage(format!("{}:{line}:{column}: {}", path.display(), error.message()))
        }
    })?;
    Ok(settings.sandbox)
}

fn bad(path: &Path, error: &str) -> CliError {
    CliError { code: "config", ..CliError::usage(format!("{}: {error}", path.display())) }
}

/// Makes a path absolute: `~` is the home directory.
fn resolve(path: PathBuf, home: Option<&Path>) -> Result<PathBuf, String> {
    if let (Ok(rest), Some(home)) = (path.strip_prefix("~"), home) {
        return Ok(home.join(rest));
    }
    if path.is_absolute() {
        return Ok(path);
    }
    Err(format!("sandbox: {} must be absolute, or begin with ~/", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Table, CliError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn a_setting_that_is_not_known_is_named_with_its_place() {
        let error = read_text("[sandbox]\nwritable = []\nwriteable = []\n").unwrap_err();
        assert!(error.message.contains("config.toml:3:1: unknown field `writeable`"), "{error}");
        let error = read_text("[sandbox\n").unwrap_err();
        assert!(error.message.contains("config.toml:1:"), "{error}");
        let error = read_text("[sandbox]\nmemory_gib = \"8\"\n").unwrap_err();
        assert!(error.message.contains("config.toml:2:14"), "{error}");
    }

    #[test]
    fn a_path_is_absolute_or_below_the_home_directory() {
        let home = Some(Path::new("/users/a"));
        assert_eq!(resolve("~/x".into(), home), Ok("/users/a/x".into()));
        assert_eq!(resolve("/x".into(), home), Ok("/x".into()));
        assert!(resolve("x".into(), home).is_err() && resolve("~/x".into(), None).is_err());
    }
}
