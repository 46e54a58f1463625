//! Logins at MCP servers, in the file of the stored keys.

use std::path::PathBuf;

use async_trait::async_trait;
use crow_mcp::{LoginStorage, LoginStorageError};
use tokio::task::spawn_blocking;

use crate::{
    credentials::{Credential, CredentialFile, StoredKeys, forget},
    environment::ProcessEnvironment,
    error::AppError,
    private_file,
};

/// Prefix of the names under which logins are stored; the URL of the server follows.
const PREFIX: &str = "mcp:";

/// The logins among the stored keys. The name of a login contains the URL of its server, so that a server of the same
/// name at another address does not get its tokens.
#[derive(Debug, Clone)]
pub struct CredentialLogins {
    file: CredentialFile,
    /// Path whose lock is held during a renewal.
    renewal: PathBuf,
}

impl CredentialLogins {
    /// Creates the storage. Does not touch the disk.
    ///
    /// # Errors
    /// Fails if there is no home directory.
    pub fn new(environment: &ProcessEnvironment) -> Result<Self, AppError> {
        let folder = environment.config_dir()?;
        Ok(Self { file: CredentialFile::new(&folder), renewal: folder.join("mcp-renewal") })
    }

    /// Runs `work` on a thread that may block.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(Self) -> Result<T, String> + Send + 'static,
    ) -> Result<T, LoginStorageError> {
        let storage = self.clone();
        let done = spawn_blocking(move || work(storage)).await;
        done.map_err(|error| error.to_string()).and_then(|done| done).map_err(LoginStorageError)
    }
}

#[async_trait]
impl LoginStorage for CredentialLogins {
    async fn load(&self, url: &str) -> Result<Option<String>, LoginStorageError> {
        let name = format!("{PREFIX}{url}");
        let found =
            self.run(move |storage| StoredKeys::new(storage.file).credential(&name)).await?;
        // The tokens are for their server alone, even if the file was edited.
        Ok(found.filter(|credential| credential.origin == url).map(|credential| credential.key))
    }

    async fn save(&self, url: &str, login: String) -> Result<(), LoginStorageError> {
        let (name, origin) = (format!("{PREFIX}{url}"), url.to_owned());
        let credential = Credential { origin, key: login };
        self.run(move |storage| {
            storage.file.add(&name, credential).map_err(|error| error.to_string())
        })
        .await
    }

    async fn remove(&self, url: &str) -> Result<bool, LoginStorageError> {
        let name = format!("{PREFIX}{url}");
        self.run(move |storage| forget(&storage.file, &name).map_err(|error| error.message)).await
    }

    async fn lock_renewal(&self) -> Result<Box<dyn Send>, LoginStorageError> {
        let lock = self
            .run(|storage| private_file::lock(&storage.renewal).map_err(|error| error.to_string()));
        Ok(Box::new(lock.await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_login_is_stored_for_the_url_of_its_server() {
        let home = tempfile::tempdir().unwrap();
        let environment = ProcessEnvironment::with([("HOME", home.path().to_str().unwrap())]);
        let logins = CredentialLogins::new(&environment).unwrap();
        logins.save("https://a.test/mcp", "secret".to_owned()).await.unwrap();
        assert_eq!(logins.load("https://a.test/mcp").await.unwrap().as_deref(), Some("secret"));
        assert_eq!(logins.load("https://b.test/mcp").await.unwrap(), None);
        // The lock of a renewal does not keep the tokens from being read and stored.
        let _lock = logins.lock_renewal().await.unwrap();
        assert!(logins.remove("https://a.test/mcp").await.unwrap());
        assert!(!logins.remove("https://a.test/mcp").await.unwrap());
    }
}
