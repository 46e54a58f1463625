//! Files whose names say that they hold keys or passwords: no command reads them unasked.

use std::path::Path;

/// Names that such files have.
const NAMES: [&str; 17] = [
    ".env",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".htpasswd",
    ".git-credentials",
    ".dockercfg",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "secrets.json",
    "secrets.yaml",
    "secrets.yml",
    "secrets.toml",
    ".credentials.json",
];
/// Beginnings of names.
const STARTS: [&str; 6] = [".env.", "id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", "secring."];
/// Ends of names.
const ENDS: [&str; 8] = [".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk"];
/// Ends of names of files that only show what such a file looks like.
const SAMPLES: [&str; 5] = [".example", ".sample", ".template", ".dist", ".pub"];
/// Folders that hold such files.
const FOLDERS: [&str; 6] = [".ssh", ".aws", ".gnupg", ".kube", ".docker", ".crow-agent"];

/// Returns whether a file may hold secrets, by its name.
pub(super) fn is_secret(path: &Path) -> bool {
    let lower = |name: &std::ffi::OsStr| name.to_string_lossy().to_lowercase();
    let Some(name) = path.file_name().map(lower) else { return false };
    let in_folder = path.components().map(|part| lower(part.as_os_str()));
    let mut folders = in_folder.clone();
    if folders.any(|part| FOLDERS.contains(&part.as_str())) {
        return true;
    }
    if SAMPLES.iter().any(|end| name.ends_with(end)) {
        return false;
    }
    // Addresses in it may hold a token.
    let is_git_config = name == "config" && in_folder.clone().any(|part| part == ".git");
    is_git_config
        || NAMES.contains(&name.as_str())
        || STARTS.iter().any(|start| name.starts_with(start))
        || ENDS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_keys_are_known_by_their_names() {
        for (path, wanted) in [
            ("/p/.env", true),
            ("/p/.ENV", true),
            ("/p/.env.local", true),
            ("/p/.env.example", false),
            ("/p/.git/config", true),
            ("/p/.git/HEAD", false),
            ("/p/config", false),
            ("/p/x/id_rsa", true),
            ("/p/x/id_rsa.pub", false),
            ("/p/server.key", true),
            ("/p/keys.rs", false),
            ("/u/.ssh/config", true),
        ] {
            assert_eq!(is_secret(Path::new(path)), wanted, "{path}");
        }
    }
}
