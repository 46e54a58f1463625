//! Logins at MCP servers, in the file of the stored keys.

use std::{path::PathBuf, time::Duration};

use async_trait::async_trait;
use crow_core::redact::Redactor;
use crow_mcp::{LoginStorage, LoginStorageError};
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};
use url::Url;

use crate::{
    credentials::{Credential, CredentialFile, MCP_LOGIN},
    environment::ProcessEnvironment,
    error::AppError,
    private_file,
};

/// Time limit of the wait for a change of a login by another process.
const LOCK_LIMIT: Duration = Duration::from_secs(45);
/// Time between two attempts to get the lock.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(50);

/// The logins among the stored keys. The name of a login contains the URL of its server, so that a server of the same
/// name at another address does not get its tokens.
#[derive(Debug, Clone)]
pub struct CredentialLogins {
    file: CredentialFile,
    folder: PathBuf,
    /// Learns the tokens.
    redactor: Option<Redactor>,
}

impl CredentialLogins {
    /// Creates the storage. Does not touch the disk.
    ///
    /// # Errors
    /// Fails if there is no home directory.
    pub fn new(environment: &ProcessEnvironment) -> Result<Self, AppError> {
        let folder = environment.config_dir()?;
        Ok(Self { file: CredentialFile::new(&folder), folder, redactor: None })
    }

    /// Redacts the tokens with this redactor as soon as they are known.
    #[must_use]
    pub(crate) fn with_redactor(self, redactor: Option<Redactor>) -> Self {
        Self { redactor, ..self }
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

/// Returns the name of a login, and the URL to which it is bound. Different spellings of a URL give the same.
fn name_and_origin(url: &str) -> (String, String) {
    let url = Url::parse(url).map_or_else(|_| url.to_owned(), String::from);
    (format!("{MCP_LOGIN}{url}"), url)
}

#[async_trait]
impl LoginStorage for CredentialLogins {
    async fn load(&self, url: &str) -> Result<Option<String>, LoginStorageError> {
        let (name, origin) = name_and_origin(url);
        let found = self.run(move |storage| {
            let mut stored = storage.file.load().map_err(|error| error.to_string())?;
            Ok(stored.remove(&name))
        });
        // The tokens are for their server alone, even if the file was edited.
        let found = found.await?.filter(|credential| credential.origin == origin);
        Ok(found.map(|credential| credential.key))
    }

    async fn save(&self, url: &str, login: String) -> Result<(), LoginStorageError> {
        let (name, origin) = name_and_origin(url);
        let credential = Credential { origin, key: login };
        self.run(move |storage| {
            storage.file.add(&name, credential).map_err(|error| error.to_string())
        })
        .await
    }

    async fn remove(&self, url: &str) -> Result<bool, LoginStorageError> {
        let (name, _) = name_and_origin(url);
        self.run(move |storage| storage.file.remove(&name).map_err(|error| error.to_string())).await
    }

    async fn lock_login(&self, url: &str) -> Result<Box<dyn Send>, LoginStorageError> {
        let name = blake3::hash(name_and_origin(url).1.as_bytes()).to_hex();
        let path = self.folder.join(format!("mcp-{}", name.get(..16).unwrap_or_default()));
        let deadline = Instant::now() + LOCK_LIMIT;
        loop {
            let path = path.clone();
            let lock = self
                .run(move |_| private_file::try_lock(&path).map_err(|error| error.to_string()))
                .await?;
            if let Some(lock) = lock {
                return Ok(Box::new(lock));
            }
            if Instant::now() > deadline {
                let why = "another process changes the login, and does not end";
                return Err(LoginStorageError(why.to_owned()));
            }
            sleep(BETWEEN_ATTEMPTS).await;
        }
    }

    fn keep_secret(&self, secret: &str) {
        if let Some(redactor) = &self.redactor {
            redactor.learn([secret.to_owned()]);
        }
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
        // A lock does not keep the tokens from being read and stored, and is for one server.
        let _lock = logins.lock_login("https://a.test/mcp").await.unwrap();
        let _other = logins.lock_login("https://b.test/mcp").await.unwrap();
        assert!(logins.remove("https://a.test/mcp").await.unwrap());
        assert!(!logins.remove("https://a.test/mcp").await.unwrap());
        // Spellings of one URL are one server.
        logins.save("https://a.test/", "secret".to_owned()).await.unwrap();
        assert!(logins.remove("HTTPS://A.test:443").await.unwrap());
    }
}
