//! The user's settings of the sandbox, `[sandbox]` in `config.toml`, and the flags above them.

use std::path::{Path, PathBuf};

use clap::Args;
use crow_runtime::{AllowedHosts, HostPattern, Network, ProcessLimits, SandboxConfig, UserGit};

use super::hidden::hidden;
use crate::{
    config::{self, SETTINGS, Settings},
    environment::Environment,
    error::CliError,
    trust::Project,
};

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

impl SandboxOptions {
    /// Returns the configuration for a runtime: none if the user wants no sandbox.
    pub(crate) fn for_commands(&self, config: SandboxConfig) -> Option<SandboxConfig> {
        (!self.no_sandbox).then_some(config)
    }
}

/// Reads how the sandbox of commands is configured. File tools keep to its places, also where commands run without one.
pub(crate) fn sandbox_config(
    options: &SandboxOptions,
    environment: &Environment,
) -> Result<SandboxConfig, CliError> {
    let path = environment.config_dir()?.join(SETTINGS);
    // The user's own: a project has no say in it.
    let layers = config::layers(environment, &Project::default())?;
    let table = Settings::read(&layers)?.sandbox;
    let home = environment.var("HOME").map(PathBuf::from);
    let place = |path: PathBuf| resolve(path, home.as_deref());
    let places = |paths: Vec<PathBuf>| paths.into_iter().map(place).collect::<Result<Vec<_>, _>>();
    let in_file = |error: String| bad(&path, &error);
    let mut config = SandboxConfig::new(environment.data_dir()?.join("sandbox"));
    config.hidden = hidden(environment, &places(table.readable).map_err(in_file)?);
    config.own = vec![environment.config_dir()?, environment.data_dir()?];
    config.hidden.extend(places(table.hidden).map_err(in_file)?);
    config.writable = places(table.writable).map_err(in_file)?;
    if let Some(path) = table.unprotected.iter().find(|path| path.is_absolute()) {
        let name = path.display();
        return Err(in_file(format!(
            "sandbox.unprotected: {name} must be relative to the project"
        )));
    }
    config.unprotected = table.unprotected;
    config.git = user_git(environment, home);
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
    Ok(config)
}

fn bad(path: &Path, error: &str) -> CliError {
    CliError { code: "config", ..CliError::usage(format!("{}: {error}", path.display())) }
}

/// Returns where git finds the user's own settings, those of the system included.
fn user_git(environment: &Environment, home: Option<PathBuf>) -> UserGit {
    let named = |name| environment.var(name).map(PathBuf::from);
    let of_system = match named("GIT_CONFIG_SYSTEM") {
        Some(path) => vec![path],
        // Where the usual builds of git have them.
        None => ["/etc", "/usr/local/etc", "/opt/homebrew/etc"]
            .map(|folder| Path::new(folder).join("gitconfig"))
            .to_vec(),
    };
    let below_home = |name: &str| home.as_ref().map(|home| home.join(name));
    let folder = named("XDG_CONFIG_HOME").filter(|folder| folder.is_absolute());
    let folder = folder.or_else(|| below_home(".config"));
    let usual = || {
        let usual = [folder.map(|folder| folder.join("git/config")), below_home(".gitconfig")];
        usual.into_iter().flatten().collect()
    };
    let of_user = named("GIT_CONFIG_GLOBAL").map_or_else(usual, |path| vec![path]);
    UserGit { settings: of_system.into_iter().chain(of_user).collect(), home }
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

    #[test]
    fn a_path_is_absolute_or_below_the_home_directory() {
        let home = Some(Path::new("/users/a"));
        assert_eq!(resolve("~/x".into(), home), Ok("/users/a/x".into()));
        assert_eq!(resolve("/x".into(), home), Ok("/x".into()));
        assert!(resolve("x".into(), home).is_err() && resolve("~/x".into(), None).is_err());
    }
}
