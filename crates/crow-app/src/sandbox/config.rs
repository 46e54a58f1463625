//! The sandbox settings: `[sandbox]` in the user's `config.toml`.

use std::path::{Path, PathBuf};

use crow_runtime::{
    AllowedHosts, HostPattern, LinkSearchConfig, Network, ProcessLimits, SandboxConfig, UserGit,
};

use super::hidden::hidden;
use crate::{
    config::{self, ProjectAdditions, SETTINGS, Settings},
    environment::ProcessEnvironment,
    error::AppError,
};

const GIB: u64 = 1 << 30;
/// Folders of the data folder that only Crow writes: commands may make links in their temporary folders there.
const OWN_DATA: [&str; 4] = ["bytecode", "sandbox", "sessions", "snapshots"];

/// What the user's settings say about the sandbox of commands.
#[derive(Debug, Clone)]
pub struct SandboxSettings {
    /// The configuration. Its paths also restrict file tools, even if commands run without a sandbox.
    pub config: SandboxConfig,
    /// Where to search for links that lead away from hidden paths.
    pub links: LinkSearchConfig,
}

/// Returns the folder of the sandboxes of all sessions.
pub(crate) fn sandbox_folder(environment: &ProcessEnvironment) -> Result<PathBuf, AppError> {
    Ok(environment.data_dir()?.join("sandbox"))
}

/// Reads the settings; commands may reach `allowed_hosts` besides.
pub fn sandbox_settings(
    environment: &ProcessEnvironment,
    allowed_hosts: &[HostPattern],
) -> Result<SandboxSettings, AppError> {
    let path = environment.config_dir()?.join(SETTINGS);
    // The user's layers only: a project may not configure the sandbox.
    let layers = config::layers(environment, &ProjectAdditions::default())?;
    let table = Settings::read(&layers)?.sandbox;
    let home = environment.var("HOME").map(PathBuf::from);
    let to_absolute = |path: PathBuf| resolve(path, home.as_deref());
    let all_absolute =
        |paths: Vec<PathBuf>| paths.into_iter().map(to_absolute).collect::<Result<Vec<_>, _>>();
    let config_error = |error: String| bad(&path, &error);
    // 1) Paths
    let mut config = SandboxConfig::new(sandbox_folder(environment)?);
    let readable = all_absolute(table.readable).map_err(config_error)?;
    config.hidden = hidden(environment, &readable);
    config.own = vec![environment.config_dir()?, environment.data_dir()?];
    config.hidden.extend(all_absolute(table.hidden).map_err(config_error)?);
    config.writable = all_absolute(table.writable).map_err(config_error)?;
    if let Some(path) = table.unprotected.iter().find(|path| path.is_absolute()) {
        let name = path.display();
        return Err(config_error(format!(
            "sandbox.unprotected: {name} must be relative to the project"
        )));
    }
    config.unprotected = table.unprotected;
    config.git = user_git(environment, home);
    // 2) Limits
    let defaults = ProcessLimits::default();
    config.limits = ProcessLimits {
        processes: table.processes.unwrap_or(defaults.processes),
        memory: table.memory_gib.map_or(defaults.memory, |gib| gib.saturating_mul(GIB)),
    };
    // 3) Network: the hosts of the settings and those of the caller
    let mut hosts = allowed_hosts.to_vec();
    for host in table.allow_hosts {
        let parsed = host.parse::<HostPattern>();
        hosts.push(parsed.map_err(|error| config_error(format!("sandbox.allow_hosts: {error}")))?);
    }
    config.network = match (table.network, hosts.is_empty()) {
        (true, _) => Network::All,
        (false, true) => Network::Loopback,
        (false, false) => Network::Hosts(AllowedHosts::new(hosts)),
    };
    let links = link_search(&config, readable, environment)?;
    Ok(SandboxSettings { config, links })
}

/// Returns where to search for files that belong to hidden paths and lie elsewhere.
fn link_search(
    config: &SandboxConfig,
    readable: Vec<PathBuf>,
    environment: &ProcessEnvironment,
) -> Result<LinkSearchConfig, AppError> {
    let data = environment.data_dir()?;
    let data = data.canonicalize().unwrap_or(data);
    Ok(LinkSearchConfig {
        own: config.own.clone(),
        hidden: config.hidden.clone(),
        // Without a home nothing is below it.
        home: config.git.home.clone().unwrap_or_else(|| data.clone()),
        shown: readable,
        passed_over: OWN_DATA.map(|name| data.join(name)).to_vec(),
        git_settings: config.git.settings.clone(),
        writable: config.writable.clone(),
    })
}

fn bad(path: &Path, error: &str) -> AppError {
    AppError { code: "config", ..AppError::usage(format!("{}: {error}", path.display())) }
}

/// Returns the paths of git's system and user settings, and the home directory.
fn user_git(environment: &ProcessEnvironment, home: Option<PathBuf>) -> UserGit {
    let path_variable = |name| environment.var(name).map(PathBuf::from);
    let system_files = match path_variable("GIT_CONFIG_SYSTEM") {
        Some(path) => vec![path],
        // Locations compiled into common builds of git.
        None => ["/etc", "/usr/local/etc", "/opt/homebrew/etc"]
            .map(|folder| Path::new(folder).join("gitconfig"))
            .to_vec(),
    };
    let below_home = |name: &str| home.as_ref().map(|home| home.join(name));
    let folder = path_variable("XDG_CONFIG_HOME").filter(|folder| folder.is_absolute());
    let folder = folder.or_else(|| below_home(".config"));
    let default_files = || {
        let default_files =
            [folder.map(|folder| folder.join("git/config")), below_home(".gitconfig")];
        default_files.into_iter().flatten().collect()
    };
    let user_files =
        path_variable("GIT_CONFIG_GLOBAL").map_or_else(default_files, |path| vec![path]);
    UserGit { settings: system_files.into_iter().chain(user_files).collect(), home }
}

/// Expands `~` to the home directory. Fails if the path is then not absolute.
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
