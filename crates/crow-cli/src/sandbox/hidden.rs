//! What commands cannot read: the agent's own files, and where programs keep keys.

use std::path::{Path, PathBuf};

use crate::Environment;

/// Below the home directory. What lets people into other machines and accounts, and browsers.
const SECRETS: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".git-credentials",
    ".pypirc",
    ".npmrc",
    ".yarnrc.yml",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".config/gcloud",
    ".config/doctl",
    ".config/op",
    ".config/sops",
    ".config/git/credentials",
    ".config/rclone",
    ".config/containers/auth.json",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".mozilla",
    ".thunderbird",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".vault-token",
    ".terraform.d/credentials.tfrc.json",
    ".pgpass",
    ".my.cnf",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".node_repl_history",
    ".claude",
    ".codex",
    ".gemini",
    ".config/opencode",
    ".local/share/opencode",
    "Library/Keychains",
];

/// Lists what is hidden but for what the user shows.
pub(super) fn hidden(environment: &Environment, shown: &[PathBuf]) -> Vec<PathBuf> {
    let own = [environment.config_dir(), environment.data_dir()].into_iter().flatten();
    let home = environment.var("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let secrets = home.iter().flat_map(|home| SECRETS.iter().map(|name| home.join(name)));
    // What programs were told to keep elsewhere.
    let moved =
        ["GNUPGHOME", "AWS_SHARED_CREDENTIALS_FILE", "DOCKER_CONFIG", "KUBECONFIG", "NETRC"]
            .into_iter()
            .filter_map(|name| environment.var(name).map(PathBuf::from))
            .filter(|path| path.is_absolute());
    let is_shown = |path: &Path| shown.iter().any(|shown| path == shown);
    let secrets = secrets.chain(moved).filter(|path| !is_shown(path));
    own.chain(secrets).collect()
}
