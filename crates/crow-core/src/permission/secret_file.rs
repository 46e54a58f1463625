//! Recognition of files whose names suggest keys, tokens or passwords.

use std::{ffi::OsStr, path::Path};

use crate::workspace::Workspace;

/// Full names.
const NAMES: [&str; 43] = [
    ".env",
    ".env~",
    ".envrc",
    ".my.cnf",
    ".mylogin.cnf",
    ".vault-token",
    ".yarnrc.yml",
    "auth.json",
    "kubeconfig",
    "wp-config.php",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".htpasswd",
    ".git-credentials",
    ".dockercfg",
    ".dockerconfigjson",
    ".dev.vars",
    "local.settings.json",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "secrets.json",
    "secrets.yaml",
    "secrets.yml",
    "secrets.toml",
    ".credentials.json",
    ".boto",
    ".s3cfg",
    ".terraformrc",
    "terraform.rc",
    ".vault_pass",
    ".vault-pass",
    ".vault_pass.txt",
    "vault-password",
    ".aws-credentials",
    "password.txt",
    "passwords.txt",
    "deploy_key",
    "wallet.dat",
    ".gitcookies",
];
/// Prefixes of names.
const PREFIXES: [&str; 8] =
    [".env.", ".env-", ".env_", "id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", "secring."];
/// Suffixes of names.
const SUFFIXES: [&str; 15] = [
    ".env",
    ".pem",
    ".key",
    ".p12",
    ".pfx",
    ".jks",
    ".keystore",
    ".kdbx",
    ".kubeconfig",
    ".ovpn",
    ".ppk",
    ".tfstate",
    ".tfstate.backup",
    ".tfvars",
    ".tfvars.json",
];
/// Prefixes of names of service keys, if the names end in `.json`.
const SERVICE_KEYS: [&str; 5] =
    ["service-account", "service_account", "client_secret", "client-secret", "firebase-adminsdk"];
/// Suffixes of files that are only samples, or the public half of a key.
const SAMPLE_SUFFIXES: [&str; 5] = [".example", ".sample", ".template", ".dist", ".pub"];
/// Suffixes of the swap files of vim, whose names begin with a dot before the name of the file.
const SWAP_SUFFIXES: [&str; 3] = [".swp", ".swo", ".swn"];
/// Directories that contain such files.
const DIRECTORIES: [&str; 6] = [".ssh", ".aws", ".gnupg", ".kube", ".docker", ".crow-agent"];

/// Returns true if a file is likely to hold secrets, judged by its path alone.
///
/// This is the single rule for all tools: the shell reader asks about a command that reads such a file, and file
/// tools apply it to the path that they resolved. It does not access the file system: pass the resolved path, so that
/// a link with a harmless name does not hide its target. Case is ignored, as some file systems do.
///
/// Secret are `.env` and its variants (`.env.local`, `.envrc`, `prod.env`), files of keys and credentials by their
/// usual names, state and variables of Terraform, `.git/config` (remote addresses may contain a token), and
/// everything in directories such as `.ssh`. Samples (`.env.example`, `.env.dist`) and public keys are not.
///
/// ```
/// use std::path::Path;
/// use crow_core::permission::is_secret_file;
///
/// assert!(is_secret_file(Path::new("/project/.env.local")));
/// assert!(!is_secret_file(Path::new("/project/.env.example")));
/// ```
pub fn is_secret_file(path: &Path) -> bool {
    let lower = |name: &OsStr| name.to_string_lossy().to_lowercase();
    let Some(name) = path.file_name().map(lower) else { return false };
    let parts: Vec<String> = path.components().map(|part| lower(part.as_os_str())).collect();
    // A directory of keys wins over samples and public keys in it.
    if parts.iter().any(|part| DIRECTORIES.contains(&part.as_str())) {
        return true;
    }
    // Editors keep the text of `.env` in `.env.swp` or `..env.swp`.
    let name = SWAP_SUFFIXES
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix)?.strip_prefix('.').map(str::to_owned))
        .unwrap_or(name);
    if SAMPLE_SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) {
        return false;
    }
    let is_git_config = name == "config" && parts.iter().any(|part| part == ".git");
    let is_service_key = name
        .strip_suffix(".json")
        .is_some_and(|stem| SERVICE_KEYS.iter().any(|beginning| stem.starts_with(beginning)));
    is_git_config
        || is_service_key
        || NAMES.contains(&name.as_str())
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// Applies [`is_secret_file`] to an absolute path relative to the root of the workspace that contains it: the root
/// itself may lie in a directory with such a name.
pub fn is_secret_file_in(path: &Path, workspace: &Workspace) -> bool {
    let below = workspace.roots().iter().find_map(|root| path.strip_prefix(root).ok());
    is_secret_file(below.unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_in_a_key_directory_is_not_secret_itself() {
        let workspace = Workspace::new("/u/.docker/project");
        for (path, wanted) in [
            ("/u/.docker/project/a.rs", false),
            ("/u/.docker/project/.env", true),
            ("/u/.docker/config.json", true),
        ] {
            assert_eq!(is_secret_file_in(Path::new(path), &workspace), wanted, "{path}");
        }
    }

    #[test]
    fn files_with_keys_are_recognized_by_their_names() {
        for (path, wanted) in [
            ("/p/.env", true),
            ("/p/.ENV", true),
            ("/p/.env.local", true),
            ("/p/.env.production", true),
            ("/p/.env-staging", true),
            ("/p/.env~", true),
            ("/p/.envrc", true),
            ("/p/.dev.vars", true),
            ("/p/..env.swp", true),
            ("/p/.notes.txt.swp", false),
            ("/p/client_secret_12.json", true),
            ("/p/.vault_pass", true),
            ("/p/.dev.vars.example", false),
            ("/p/local.settings.json", true),
            ("/p/prod.env", true),
            ("/p/.env.example.local", true),
            ("/p/.env.example", false),
            ("/p/.env.sample", false),
            ("/p/.env.template", false),
            ("/p/.env.dist", false),
            ("/p/environment.rs", false),
            ("/p/env", false),
            ("/p/.environment", false),
            ("/p/.git/config", true),
            ("/p/.git/modules/sub/config", true),
            ("/p/.git/HEAD", false),
            ("/p/config", false),
            ("/p/x/id_rsa", true),
            ("/p/x/id_rsa.pub", false),
            ("/p/server.key", true),
            ("/p/keys.rs", false),
            ("/p/service-account.json", true),
            ("/p/service_account_prod.json", true),
            ("/p/service-account.ts", false),
            ("/p/terraform.tfstate", true),
            ("/p/terraform.tfstate.backup", true),
            ("/p/prod.tfvars", true),
            ("/p/prod.auto.tfvars.json", true),
            ("/p/terraform.tfvars.example", false),
            ("/p/main.tf", false),
            ("/p/.vault-token", true),
            ("/p/kubeconfig", true),
            ("/p/kubeconfig.rs", false),
            ("/p/dev.kubeconfig", true),
            ("/p/.my.cnf", true),
            ("/p/auth.json", true),
            ("/p/auth.ts", false),
            ("/p/office.ovpn", true),
            ("/p/wp-config.php", true),
            ("/p/wp-config-sample.php", false),
            ("/p/.yarnrc.yml", true),
            ("/u/.ssh/config", true),
            ("/u/.ssh/id_rsa.pub", true),
            ("/", false),
        ] {
            assert_eq!(is_secret_file(Path::new(path)), wanted, "{path}");
        }
    }
}
