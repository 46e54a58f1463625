//! The sandbox settings: `[sandbox]` in the user's `config.toml`, the paths that are hidden from commands, and a trial.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use crow_core::capability::Containment;
use crow_runtime::{
    AllowedHosts, HostPattern, LinkSearchConfig, Network, ProcessLimits, Sandbox, SandboxConfig,
    UserGit,
};

use super::{
    secret_paths::{PATH_VARIABLES, SECRET_PATHS, SETTINGS_WITH_KEYS},
    start_files::START_FILES,
};
use crate::{
    config::{self, ProjectAdditions, SETTINGS, Settings},
    environment::ProcessEnvironment,
    error::AppError,
    skills::user_skill_folders,
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
pub fn sandbox_folder(environment: &ProcessEnvironment) -> Result<PathBuf, AppError> {
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
    let settings = Settings::read(&layers)?;
    let table = settings.sandbox;
    let home = environment.var("HOME").map(PathBuf::from);
    let to_absolute = |path: PathBuf| {
        let absolute = environment.absolute_path(&path);
        absolute.ok_or_else(|| {
            format!("sandbox: {} must be absolute, or begin with ~/", path.display())
        })
    };
    let all_absolute =
        |paths: Vec<PathBuf>| paths.into_iter().map(to_absolute).collect::<Result<Vec<_>, _>>();
    let config_error = |error: String| bad(&path, &error);
    // 1) Paths
    let mut config = SandboxConfig::new(sandbox_folder(environment)?);
    let readable = all_absolute(table.readable).map_err(config_error)?;
    config.hidden = hidden(environment, &readable);
    config.own = vec![environment.config_dir()?, environment.data_dir()?];
    config.hidden.extend(all_absolute(table.hidden).map_err(config_error)?);
    // A relative path is reported when the server is used.
    let key_files = settings.mcp.key_files().filter_map(|path| environment.absolute_path(path));
    config.hidden.extend(key_files);
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
        // Skills are there to be read.
        passed_over: OWN_DATA
            .map(|name| data.join(name))
            .into_iter()
            .chain(user_skill_folders(environment))
            .collect(),
        git_settings: config.git.settings.clone(),
        start_files: start_files(environment),
        writable: config.writable.clone(),
    })
}

/// Returns the files and folders of the user from which shells, editors and the desktop start programs.
fn start_files(environment: &ProcessEnvironment) -> Vec<PathBuf> {
    let home = environment.var("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let zsh = environment.var("ZDOTDIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let below_home = home
        .iter()
        .flat_map(|home| START_FILES.iter().flat_map(|name| locations(environment, home, name)));
    let of_zsh = zsh.iter().flat_map(|folder| {
        let names = START_FILES.iter().filter(|name| name.starts_with(".z"));
        names.map(|name| folder.join(name))
    });
    let mut files: Vec<PathBuf> = below_home.chain(of_zsh).collect();
    files.sort();
    files.dedup();
    files
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

/// Sets up a sandbox as a session in `cwd` would. Returns its containment, and the reason if it is not full (else
/// empty).
pub async fn probe_containment(mut config: SandboxConfig, cwd: &Path) -> (Containment, String) {
    config.folder = config.folder.join("trial");
    let name = std::process::id().to_string();
    let sandbox = Sandbox::new(config, name, vec![cwd.to_path_buf()]);
    let containment = sandbox.containment().await;
    (containment, sandbox.reason().await.unwrap_or_default())
}

/// Folders of the XDG specification: default below the home directory, and the variable that overrides it.
const XDG: [(&str, &str); 4] = [
    (".config", "XDG_CONFIG_HOME"),
    (".local/share", "XDG_DATA_HOME"),
    (".local/state", "XDG_STATE_HOME"),
    (".cache", "XDG_CACHE_HOME"),
];
/// Maximum size of a settings file that is searched for keys, in bytes. A larger one is assumed to contain some.
const LARGEST_SETTINGS: u64 = 256 * 1024;

/// Returns the hidden paths, sorted, without those in `shown`; the agent's own folders are always among them. Reads a
/// few small settings files. Blocks.
pub(super) fn hidden(environment: &ProcessEnvironment, shown: &[PathBuf]) -> Vec<PathBuf> {
    let own = [environment.config_dir(), environment.data_dir()].into_iter().flatten();
    let home = environment.var("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let home = home.as_deref();
    // Hidden always, and hidden only while the file contains keys.
    let always = SECRET_PATHS
        .iter()
        .flat_map(|name| home.into_iter().flat_map(|home| locations(environment, home, name)));
    let with_keys = SETTINGS_WITH_KEYS.iter().flat_map(|(name, signs)| {
        let locations = home.into_iter().flat_map(|home| locations(environment, home, name));
        locations.filter(|path| holds_keys(path, signs))
    });
    // Files and folders that variables name, several separated by colons.
    let relocated = PATH_VARIABLES.iter().filter_map(|name| environment.var(name));
    let relocated = relocated.flat_map(|value| {
        value.split(':').map(PathBuf::from).filter(|path| path.is_absolute()).collect::<Vec<_>>()
    });
    let is_shown = |path: &Path| shown.iter().any(|shown| path == shown);
    let mut hidden: Vec<PathBuf> = own
        .chain(always.chain(with_keys).chain(relocated).filter(|path| !is_shown(path)))
        .collect();
    hidden.sort();
    hidden.dedup();
    hidden
}

/// Returns the paths of a name below the home directory: the default one, and the one that an XDG variable moves it
/// to. Both are hidden, because not all programs use the variable.
fn locations<'a>(
    environment: &'a ProcessEnvironment,
    home: &'a Path,
    name: &'a str,
) -> impl Iterator<Item = PathBuf> + 'a {
    let relocated = XDG.iter().filter_map(move |(usual, variable)| {
        let below = Path::new(name).strip_prefix(usual).ok()?;
        let folder = environment.var(variable).map(PathBuf::from)?;
        folder.is_absolute().then(|| folder.join(below))
    });
    std::iter::once(home.join(name)).chain(relocated)
}

/// Returns true if the text of a settings file suggests that it contains keys: one of the signs, a URL with a user
/// name or password, or a word that means a token in all such files. An unreadable file is assumed to contain some.
fn holds_keys(path: &Path, signs: &[&str]) -> bool {
    let text = match File::open(path) {
        Ok(file) => read(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return false,
        Err(_) => None,
    };
    let Some(text) = text.map(|text| text.to_lowercase()) else { return true };
    let has_address_with_password = text.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', '"', '\'', '<', ' ', '\n']).next().unwrap_or(rest);
        authority.contains('@')
    });
    // Bundler writes the credentials of a host as `BUNDLE_HOST__NAME: "user:password"`.
    let has_host_of_bundler = text.lines().any(|line| {
        line.strip_prefix("bundle_").is_some_and(|line| {
            line.split_once(": ")
                .is_some_and(|(name, value)| name.contains("__") && value.contains(':'))
                || line.contains("__com")
                || line.contains("__org")
                || line.contains("__io")
        })
    });
    has_address_with_password
        || has_host_of_bundler
        || ["_auth", "secret", "apikey", "api_key", "access_token"]
            .iter()
            .chain(signs)
            .any(|sign| text.contains(sign))
}

/// Reads a small settings file. Returns `None` if it is not text, not a regular file or too large.
fn read(file: File) -> Option<String> {
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(LARGEST_SETTINGS + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= LARGEST_SETTINGS).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Common files with keys, written down independently of [`SECRET_PATHS`].
    const USUAL: &[&str] = &[
        ".claude.json",
        ".config/github-copilot/hosts.json",
        ".cursor/mcp.json",
        ".cache/huggingface/token",
        ".config/Bitwarden/data.json",
        ".config/microsoft-edge/Default/Cookies",
        ".config/vivaldi/Default/Login Data",
        ".config/opera/Login Data",
        "snap/firefox/common/.mozilla/firefox/x/logins.json",
        "snap/chromium/common/chromium/Default/Cookies",
        ".var/app/com.google.Chrome/config/google-chrome/Default/Cookies",
        ".var/app/org.mozilla.firefox/.mozilla/firefox/x/key4.db",
        ".config/mozilla/firefox/x/key4.db",
        ".librewolf/x/key4.db",
        ".config/composer/auth.json",
        ".s3cfg",
        ".pulumi/credentials.json",
        ".fly/config.yml",
        ".local/share/com.vercel.cli/auth.json",
        ".config/netlify/config.json",
        ".local/share/heroku/x",
        ".config/doctl/config.yaml",
        ".config/linode-cli",
        ".config/hcloud/cli.toml",
        ".config/rclone/rclone.conf",
        ".config/borg/keys/x",
        ".config/age/keys.txt",
        ".config/sops/age/keys.txt",
        ".config/op/config",
        ".config/gopass/config",
        ".local/share/gopass/stores/root/x.gpg",
        ".password-store/x.gpg",
        ".gnupg/private-keys-v1.d/x",
        ".kube/config",
        ".docker/config.json",
        ".config/containers/auth.json",
        ".config/helm/registry/config.json",
        ".terraform.d/credentials.tfrc.json",
        ".vault-token",
        ".databrickscfg",
        ".snowsql/config",
        ".pgpass",
        ".my.cnf",
        ".psql_history",
        ".rediscli_history",
        ".local/share/fish/fish_history",
        ".zsh_history",
        ".npmrc",
        ".cargo/credentials.toml",
        ".gem/credentials",
        ".pypirc",
        ".gradle/gradle.properties",
        ".netrc",
        ".git-credentials",
        ".config/gh/hosts.yml",
        ".config/glab-cli/config.yml",
        ".codex/auth.json",
        ".gemini/oauth_creds.json",
        ".local/share/opencode/auth.json",
        ".continue/config.yaml",
        ".config/goose/config.yaml",
        ".config/crush/crush.json",
        ".config/amp/settings.json",
        ".codeium/windsurf/x",
        ".thunderbird/x/logins.json",
        ".config/neomutt/neomuttrc",
        ".config/Signal/config.json",
        ".config/Slack/Cookies",
        ".config/discord/Local Storage/x",
        ".local/share/TelegramDesktop/tdata/x",
        ".config/keepassxc/keepassxc.ini",
        ".local/share/keyrings/login.keyring",
        ".local/share/kwalletd/kdewallet.kwl",
        ".config/goa-1.0/accounts.conf",
        ".config/wireguard/wg0.conf",
        ".ssh/id_ed25519",
        ".aws/credentials",
        ".azure/msal_token_cache.json",
        ".config/gcloud/credentials.db",
        ".oci/config",
        ".bluemix/config.json",
        ".aliyun/config.json",
        ".config/Code/User/globalStorage/state.vscdb",
        ".config/JetBrains/x/c.kdbx",
    ];

    fn is_hidden(hidden: &[PathBuf], path: &Path) -> bool {
        hidden.iter().any(|hidden| path.starts_with(hidden))
    }

    #[test]
    fn the_usual_places_of_keys_are_hidden() {
        let environment = ProcessEnvironment::with([("HOME", "/users/a")]);
        let hidden = hidden(&environment, &[]);
        let home = Path::new("/users/a");
        let visible: Vec<_> =
            USUAL.iter().filter(|name| !is_hidden(&hidden, &home.join(name))).collect();
        assert_eq!(visible, [&""; 0]);
    }

    #[test]
    fn files_that_builds_need_are_not_hidden() {
        let environment = ProcessEnvironment::with([("HOME", "/users/a")]);
        let hidden = hidden(&environment, &[]);
        for name in [
            ".cargo/registry/x",
            ".cargo/config.toml",
            ".cargo/bin/cargo",
            ".rustup/toolchains/x",
            ".gitconfig",
            ".config/git/config",
            ".config/git/ignore",
            ".npm/_cacache/x",
            ".cache/pip/x",
            ".cache/huggingface/hub/x",
            ".m2/repository/x",
            ".m2/settings.xml",
            ".nuget/packages/x",
            ".nuget/NuGet/NuGet.Config",
            ".config/pip/pip.conf",
            ".gradle/caches/x",
            ".gem/ruby/x",
            ".local/share/gem/ruby/x",
            ".local/share/uv/python/x",
            ".local/share/pnpm/x",
            ".local/share/nvim/lazy/x",
            ".local/bin/x",
            ".nvm/versions/x",
            ".pyenv/versions/x",
            ".sdkman/candidates/x",
            ".asdf/installs/x",
            ".local/share/mise/x",
            ".config/mise/config.toml",
            ".vscode-server/bin/x",
            ".android/debug.keystore",
            ".julia/packages/x",
            ".ghc/x",
            ".sbt/boot/x",
            ".ivy2/cache/x",
            ".pub-cache/hosted/x",
            ".hex/packages/x",
            ".terraform.d/plugins/x",
            ".ollama/models/x",
        ] {
            assert!(!is_hidden(&hidden, &Path::new("/users/a").join(name)), "{name}");
        }
    }

    #[test]
    fn settings_of_builds_are_hidden_only_while_they_hold_keys() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        let environment = ProcessEnvironment::with([("HOME", home.to_str().unwrap())]);
        for (name, plain, with_key) in [
            (
                ".m2/settings.xml",
                "<settings><mirrors><mirror><url>https://m.test/</url></mirror></mirrors></settings>",
                "<settings><servers><server><password>x</password></server></servers></settings>",
            ),
            (
                ".nuget/NuGet/NuGet.Config",
                "<configuration><packageSources/></configuration>",
                "<configuration><packageSourceCredentials/></configuration>",
            ),
            (
                ".config/pip/pip.conf",
                "[global]\nindex-url = https://m.test/simple\n",
                "[global]\nindex-url = https://u:p@m.test/simple\n",
            ),
            (
                ".bundle/config",
                "---\nBUNDLE_PATH: \"vendor\"\nBUNDLE_BUILD__NOKOGIRI: \"--use-system-libraries\"\n",
                "---\nBUNDLE_GEMS__CONTRIBSYS__COM: \"u:p\"\n",
            ),
            (
                ".condarc",
                "channels:\n  - conda-forge\n",
                "channels:\n  - https://m.test/t/token-x/c\n",
            ),
        ] {
            let path = home.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, plain).unwrap();
            assert!(!is_hidden(&hidden(&environment, &[]), &path), "{name}");
            fs::write(&path, with_key).unwrap();
            assert!(is_hidden(&hidden(&environment, &[]), &path), "{name}");
            fs::write(&path, [0xff, 0xfe]).unwrap();
            assert!(is_hidden(&hidden(&environment, &[]), &path), "{name}: not text");
        }
    }

    #[test]
    fn paths_in_variables_are_hidden_and_shown_paths_are_not() {
        let environment = ProcessEnvironment::with([
            ("HOME", "/users/a"),
            ("XDG_CONFIG_HOME", "/conf"),
            ("KUBECONFIG", "/k/one:/k/two:relative"),
            ("GNUPGHOME", "/keys"),
        ]);
        let shown = [PathBuf::from("/users/a/.npmrc")];
        let hidden = hidden(&environment, &shown);
        for path in ["/conf/gh", "/users/a/.config/gh", "/k/one", "/k/two", "/keys"] {
            assert!(hidden.contains(&PathBuf::from(path)), "{path}");
        }
        assert!(!hidden.contains(&shown[0]));
        assert!(hidden.iter().all(|path| path.is_absolute()));
    }
}
