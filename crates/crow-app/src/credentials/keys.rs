//! Lookup of the stored keys for providers.

use crow_providers::{ApiKey, KeyStore, StoredKey};

use super::file::{Credential, CredentialFile};

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
}

impl KeyStore for StoredKeys {
    fn find(&self, name: &str) -> Result<Option<StoredKey>, String> {
        let credential = self.file.load().map_err(|error| error.to_string())?.remove(name);
        #[cfg(feature = "keyring")]
        let credential = match credential {
            Some(credential) => Some(credential),
            None => super::keyring::find(name)?,
        };
        Ok(credential.and_then(|Credential { origin, key }| {
            ApiKey::new(&key).map(|key| StoredKey { key, origin })
        }))
    }
}
