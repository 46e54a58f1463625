//! The file of the stored API keys, `credentials.json`: lookup for providers, and removal.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use crow_providers::{ApiKey, KeyStore, StoredKey};
use serde::{Deserialize, Serialize};

use crate::{
    error::AppError,
    private_file::{self, Privacy, PrivateFileError},
};

/// Version of the file format.
const VERSION: u32 = 1;

/// Prefix of the names under which logins at MCP servers are stored; the URL of the server follows.
pub const MCP_LOGIN: &str = "mcp:";

/// The file of the stored keys, readable by the user alone.
#[derive(Debug, Clone)]
pub struct CredentialFile {
    path: PathBuf,
}

/// A key, and the only origin that it may be sent to.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    pub origin: String,
    pub key: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential(*** for {})", self.origin)
    }
}

/// Keys by name.
pub(crate) type CredentialMap = BTreeMap<String, Credential>;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CredentialsDocument {
    version: u32,
    keys: CredentialMap,
}

/// The version alone, read before the rest is parsed.
#[derive(Deserialize)]
struct CredentialsVersion {
    version: u32,
}

/// The keys cannot be read or written. The file is left unchanged.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    #[error(transparent)]
    File(#[from] PrivateFileError),
    /// Not JSON of this format. The parser's message is left out, since it could quote a key.
    #[error("{}:{line}:{column}: the file is invalid; fix it, or move it away and log in again", .path.display())]
    Broken { path: PathBuf, line: usize, column: usize },
    #[error("{} has version {found}, but only version {VERSION} is supported; update crow-agent", .path.display())]
    Version { path: PathBuf, found: u32 },
}

impl CredentialFile {
    /// Creates the handle of `credentials.json` in `folder`. Does not touch the disk.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { path: folder.join("credentials.json") }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the keys; an absent file has none. Blocks.
    pub fn load(&self) -> Result<CredentialMap, CredentialError> {
        let Some(text) = private_file::read(&self.path, Privacy::Secret)? else {
            return Ok(CredentialMap::new());
        };
        let broken = |error: serde_json::Error| CredentialError::Broken {
            path: self.path.clone(),
            line: error.line(),
            column: error.column(),
        };
        let head: CredentialsVersion = serde_json::from_str(&text).map_err(broken)?;
        if head.version != VERSION {
            return Err(CredentialError::Version { path: self.path.clone(), found: head.version });
        }
        let document: CredentialsDocument = serde_json::from_str(&text).map_err(broken)?;
        Ok(document.keys)
    }

    /// Stores a key, replacing one of the same name. Blocks.
    pub fn add(&self, name: &str, credential: Credential) -> Result<(), CredentialError> {
        self.change(|keys| keys.insert(name.to_owned(), credential)).map(drop)
    }

    /// Removes a key. Returns true if there was one. Blocks.
    pub(crate) fn remove(&self, name: &str) -> Result<bool, CredentialError> {
        Ok(self.change(|keys| keys.remove(name))?.is_some())
    }

    /// Reads, changes and writes the file under its lock, so that changes of other processes are not lost.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut CredentialMap) -> T,
    ) -> Result<T, CredentialError> {
        let _lock = private_file::lock(&self.path)?;
        let mut keys = self.load()?;
        let outcome = change(&mut keys);
        let path = || self.path.clone();
        let text = serde_json::to_string_pretty(&CredentialsDocument { version: VERSION, keys })
            .map_err(|_| CredentialError::Broken { path: path(), line: 0, column: 0 })?;
        private_file::close_folder(&self.path)?;
        private_file::replace(&self.path, &text)?;
        Ok(outcome)
    }
}

impl From<CredentialError> for AppError {
    fn from(error: CredentialError) -> Self {
        Self { code: "credentials", ..Self::usage(error.to_string()) }
    }
}

/// The keys that the user stored. They are read anew for each lookup: the user may log in or out while the program
/// runs.
#[derive(Debug)]
pub(crate) struct StoredKeys {
    file: CredentialFile,
}

impl StoredKeys {
    /// Looks keys up in `file`, and then in the keyring if that is compiled in.
    pub(crate) fn new(file: CredentialFile) -> Self {
        Self { file }
    }

    /// Returns the key that is stored under a name. The error is a sentence on why it cannot be read.
    pub(crate) fn credential(&self, name: &str) -> Result<Option<Credential>, String> {
        let credential = self.file.load().map_err(|error| error.to_string())?.remove(name);
        #[cfg(feature = "keyring")]
        let credential = match credential {
            Some(credential) => Some(credential),
            None => super::keyring::find(name)?,
        };
        Ok(credential)
    }
}

impl KeyStore for StoredKeys {
    fn find(&self, name: &str) -> Result<Option<StoredKey>, String> {
        let credential = self.credential(name)?;
        Ok(credential.and_then(|Credential { origin, key }| {
            ApiKey::new(&key).map(|key| StoredKey { key, origin })
        }))
    }
}

/// Removes the stored key if there is exactly one, and returns its name. Fails otherwise. Blocks.
pub(crate) fn remove_only_key(file: &CredentialFile) -> Result<String, AppError> {
    let stored = file.load()?;
    let names: Vec<_> =
        stored.keys().map(String::as_str).filter(|name| !name.starts_with(MCP_LOGIN)).collect();
    let [name] = names.as_slice() else {
        let hint = match names.as_slice() {
            [] => "keys in variables and in provider files must be removed by hand".to_owned(),
            names => format!("crow-agent logout PROVIDER, with one of {}", names.join(", ")),
        };
        let message = if names.is_empty() { "no key is stored" } else { "several keys are stored" };
        return Err(AppError::usage(message).hint(hint));
    };
    forget(file, name)?;
    Ok((*name).to_owned())
}

/// Removes a key from the file and the keyring. Returns true if there was one.
pub fn forget(file: &CredentialFile, name: &str) -> Result<bool, AppError> {
    let was_in_file = file.remove(name)?;
    #[cfg(feature = "keyring")]
    let was_in_keyring = super::keyring::remove(name).map_err(AppError::failed)?;
    #[cfg(not(feature = "keyring"))]
    let was_in_keyring = false;
    Ok(was_in_file || was_in_keyring)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn credential(key: &str) -> Credential {
        Credential { origin: "https://api.example.com".to_owned(), key: key.to_owned() }
    }

    #[test]
    fn keys_are_stored_replaced_and_removed_in_a_private_folder() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config");
        fs::create_dir(&config).unwrap();
        fs::set_permissions(&config, fs::Permissions::from_mode(0o755)).unwrap();
        let file = CredentialFile::new(&config);
        file.add("one", credential("sk-1")).unwrap();
        file.add("two", credential("sk-2")).unwrap();
        file.add("one", credential("sk-3")).unwrap();
        assert_eq!(file.load().unwrap()["one"].key, "sk-3");
        assert!(file.remove("one").unwrap());
        assert!(!file.remove("one").unwrap());
        assert_eq!(file.load().unwrap().len(), 1);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(file.path()), mode(&config)), (0o600, 0o700));
    }

    #[test]
    fn a_broken_file_is_left_as_it_is_and_its_keys_are_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = CredentialFile::new(folder.path());
        for text in [
            "",
            "{\"version\": 1, \"keys\": \"sk-very-secret\"}",
            "{\"version\": 1, \"keys\": {\"a\": {\"origin\": \"x\", \"key\": \"k\", \"sk-very-secret\": 1}}}",
            "{\"version\": 1}",
            "{\"version\": 2, \"sk-very-secret\": 1}",
            "\"sk-very-secret\"",
        ] {
            fs::write(file.path(), text).unwrap();
            fs::set_permissions(file.path(), fs::Permissions::from_mode(0o600)).unwrap();
            let refused = file.add("one", credential("sk-1")).unwrap_err();
            assert!(!format!("{refused} {refused:?}").contains("sk-"), "{refused}");
            assert_eq!(fs::read_to_string(file.path()).unwrap(), text);
        }
    }

    #[test]
    fn a_credential_does_not_show_its_key() {
        assert!(!format!("{:?}", credential("sk-very-secret")).contains("sk-"));
    }
}
