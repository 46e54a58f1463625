//! The keys that the user stored, as providers look for them.

use crow_providers::{ApiKey, KeyStore, StoredKey};

use super::file::{Credential, CredentialFile};

/// The keys that the user stored. They are read whenever one is needed: she may log in and out beside a program that runs.
#[derive(Debug)]
pub(crate) struct StoredKeys {
    file: CredentialFile,
}

impl StoredKeys {
    /// Takes keys from a file.
    pub(crate) fn new(file: CredentialFile) -> Self {
        Self { file }
    }
}

impl KeyStore for StoredKeys {
    fn find(&self, name: &str) -> Result<Option<StoredKey>, String> {
        let known = self.file.load().map_err(|error| error.to_string())?.remove(name);
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
