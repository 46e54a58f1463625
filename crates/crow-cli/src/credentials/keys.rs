//! The keys that the user stored, as providers look for them.

use std::sync::OnceLock;

use crow_providers::{ApiKey, KeyStore, StoredKey};

use super::file::{Credential, CredentialFile, Credentials};

/// The keys that the user stored. Read when the first one is needed, and then kept for the process.
#[derive(Debug)]
pub(crate) struct StoredKeys {
    file: CredentialFile,
    loaded: OnceLock<Result<Credentials, String>>,
}

impl StoredKeys {
    /// Takes keys from a file.
    pub(crate) fn new(file: CredentialFile) -> Self {
        Self { file, loaded: OnceLock::new() }
    }
}

impl KeyStore for StoredKeys {
    fn find(&self, name: &str) -> Result<Option<StoredKey>, String> {
        let loaded =
            self.loaded.get_or_init(|| self.file.load().map_err(|error| error.to_string()));
        let known = loaded.as_ref().map_err(Clone::clone)?.get(name).cloned();
        #[cfg(feature = "keyring")]
        let known = match known {
            Some(known) => Some(known),
            None => super::keyring::find(name)?,
        };
        Ok(known.and_then(|Credential { origin, key }| {
            ApiKey::new(&key).map(|key| StoredKey { key, origin })
        }))
    }
}
