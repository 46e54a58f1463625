//! Stored logins, and the access tokens from them.

use std::{
    fmt,
    sync::{Arc, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use crow_core::capability::Http;
use oauth2::TokenResponse;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, CredentialStore, OAuthClientConfig,
    StoredCredentials,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use url::Url;

use super::http::OAuthHttp;
use crate::settings::OAuthSettings;

/// Time before its end from which on a token counts as expired.
const EXPIRY_MARGIN: Duration = Duration::from_secs(30);

/// Storage of logins: one text per server. The texts are secret.
#[async_trait]
pub trait LoginStorage: Send + Sync + fmt::Debug {
    /// Returns the login at the server with this URL, if one is stored.
    async fn load(&self, url: &str) -> Result<Option<String>, LoginStorageError>;

    /// Stores a login, replacing an earlier one.
    async fn save(&self, url: &str, login: String) -> Result<(), LoginStorageError>;

    /// Removes a login. Returns true if there was one.
    async fn remove(&self, url: &str) -> Result<bool, LoginStorageError>;

    /// Waits for the exclusive right to renew logins, also against other processes. It ends when the value is dropped.
    /// The other methods can be called meanwhile.
    async fn lock_renewal(&self) -> Result<Box<dyn Send>, LoginStorageError>;
}

/// Error of a storage of logins: a sentence for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LoginStorageError(pub String);

/// A login as it is stored.
#[derive(Clone, Serialize, Deserialize)]
struct StoredLogin {
    /// Secret that the authorization server issued for Crow at the registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    /// Redirect address of the registration.
    redirect_uri: String,
    credentials: StoredCredentials,
}

/// The registration of Crow at an authorization server, apart from its id.
#[derive(Clone)]
pub(super) struct Registration {
    pub(super) client_secret: Option<String>,
    pub(super) redirect_uri: String,
}

/// The login at a server. Clones share their state.
#[derive(Clone)]
pub(crate) struct ServerLogin(Arc<LoginState>);

struct LoginState {
    storage: Arc<dyn LoginStorage>,
    http: Arc<dyn Http>,
    url: Url,
    settings: OAuthSettings,
    /// Held during a renewal, so that several requests do not renew the same tokens.
    renewing: Mutex<()>,
}

impl ServerLogin {
    pub(crate) fn new(
        storage: Arc<dyn LoginStorage>,
        http: Arc<dyn Http>,
        url: Url,
        settings: OAuthSettings,
    ) -> Self {
        Self(Arc::new(LoginState { storage, http, url, settings, renewing: Mutex::default() }))
    }

    pub(super) fn settings(&self) -> &OAuthSettings {
        &self.0.settings
    }

    /// Returns the access token, renewed if it expires soon. `None` if the user has to log in.
    pub(crate) async fn access_token(&self) -> Result<Option<String>, String> {
        let Some(login) = self.stored().await? else { return Ok(None) };
        if !expires_soon(&login.credentials) {
            return Ok(token(&login.credentials));
        }
        self.renewed(token(&login.credentials).as_deref()).await
    }

    /// Returns an access token other than `rejected`, renewed if necessary. `None` if the user has to log in.
    pub(crate) async fn renewed(&self, rejected: Option<&str>) -> Result<Option<String>, String> {
        let _own = self.0.renewing.lock().await;
        let _lock = self.0.storage.lock_renewal().await.map_err(|error| error.to_string())?;
        let Some(login) = self.stored().await? else { return Ok(None) };
        // Another request or process may have renewed it already.
        let current = token(&login.credentials);
        if current.as_deref() != rejected && !expires_soon(&login.credentials) {
            return Ok(current);
        }
        let registration = Registration {
            client_secret: login.client_secret.clone(),
            redirect_uri: login.redirect_uri.clone(),
        };
        let renew = async {
            let mut manager =
                self.manager(Arc::new(std::sync::Mutex::new(registration.clone()))).await?;
            self.discover(&mut manager, None).await?;
            if !manager.initialize_from_store().await? {
                return Err(AuthError::AuthorizationRequired);
            }
            let client_id = login.credentials.client_id.clone();
            let mut client = OAuthClientConfig::new(client_id, registration.redirect_uri);
            client.client_secret = registration.client_secret;
            manager.configure_client(client)?;
            manager.refresh_token().await
        };
        match renew.await {
            Ok(_) => {
                let login = self.stored().await?;
                Ok(login.and_then(|login| token(&login.credentials)))
            }
            Err(AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_)) => Ok(None),
            Err(error) => Err(format!("the login cannot be renewed: {}", describe(&error))),
        }
    }

    /// Returns the scopes that the stored login grants.
    pub(super) async fn granted_scopes(&self) -> Result<Vec<String>, String> {
        Ok(self.stored().await?.map(|login| login.credentials.granted_scopes).unwrap_or_default())
    }

    /// Creates the library's manager of this login. It stores the tokens that it obtains together with
    /// `registration`.
    pub(super) async fn manager(
        &self,
        registration: Arc<std::sync::Mutex<Registration>>,
    ) -> Result<AuthorizationManager, AuthError> {
        let (url, http) = (self.0.url.clone(), Arc::new(self.http()));
        let mut manager = AuthorizationManager::new_with_oauth_http_client(url, http).await?;
        manager.set_credential_store(LibraryStore { login: self.clone(), registration });
        Ok(manager)
    }

    /// Finds the authorization server.
    ///
    /// Servers of protocol version 2025-03-26 publish the metadata at their own origin, and some name an issuer below
    /// it, against RFC 8414. That is accepted as long as everything in the metadata belongs to this origin.
    pub(super) async fn discover(
        &self,
        manager: &mut AuthorizationManager,
        challenge: Option<&str>,
    ) -> Result<AuthorizationMetadata, AuthError> {
        let metadata = match manager.resolve_metadata_from_challenge(challenge).await {
            Ok(resolution) => resolution.metadata,
            Err(error @ AuthError::AuthorizationServerMismatch { .. }) => {
                self.own_metadata().await.ok_or(error)?
            }
            Err(error) => return Err(error),
        };
        manager.set_metadata(metadata.clone());
        Ok(metadata)
    }

    /// Returns the metadata at the server's own origin, if all its addresses belong to this origin.
    async fn own_metadata(&self) -> Option<AuthorizationMetadata> {
        let url = self.0.url.join("/.well-known/oauth-authorization-server").ok()?;
        let body = self.http().get(&url).await?;
        let metadata: AuthorizationMetadata = serde_json::from_slice(&body).ok()?;
        let addresses = [
            Some(&metadata.authorization_endpoint),
            Some(&metadata.token_endpoint),
            metadata.registration_endpoint.as_ref(),
            metadata.issuer.as_ref(),
        ];
        let is_own = |address: &String| {
            Url::parse(address).is_ok_and(|address| address.origin() == self.0.url.origin())
        };
        let all_own = addresses.into_iter().flatten().all(is_own);
        all_own.then_some(metadata)
    }

    fn http(&self) -> OAuthHttp {
        let http = Arc::clone(&self.0.http);
        OAuthHttp::new(http, self.0.url.clone(), self.0.settings.private_network)
    }

    async fn stored(&self) -> Result<Option<StoredLogin>, String> {
        let text = self.0.storage.load(self.0.url.as_str()).await;
        let Some(text) = text.map_err(|error| error.to_string())? else { return Ok(None) };
        // The parser's message could quote a secret.
        let broken = |_| format!("the stored login at {} is broken; log in again", self.0.url);
        serde_json::from_str(&text).map(Some).map_err(broken)
    }
}

impl fmt::Debug for ServerLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerLogin").field(&self.0.url.as_str()).finish()
    }
}

/// The storage of a login as the library wants it.
struct LibraryStore {
    login: ServerLogin,
    registration: Arc<std::sync::Mutex<Registration>>,
}

#[async_trait]
impl CredentialStore for LibraryStore {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let stored = self.login.stored().await.map_err(AuthError::CredentialStoreError)?;
        Ok(stored.map(|login| login.credentials))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let failed = |why: String| AuthError::CredentialStoreError(why);
        let Registration { client_secret, redirect_uri } =
            self.registration.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let login = StoredLogin { client_secret, redirect_uri, credentials };
        let text = serde_json::to_string(&login).map_err(|error| failed(error.to_string()))?;
        let LoginState { storage, url, .. } = &*self.login.0;
        storage.save(url.as_str(), text).await.map_err(|error| failed(error.to_string()))
    }

    async fn clear(&self) -> Result<(), AuthError> {
        let LoginState { storage, url, .. } = &*self.login.0;
        let removed = storage.remove(url.as_str()).await;
        removed.map(drop).map_err(|error| AuthError::CredentialStoreError(error.to_string()))
    }
}

/// Returns true if the access token expires within [`EXPIRY_MARGIN`], or within half of a shorter lifetime.
fn expires_soon(credentials: &StoredCredentials) -> bool {
    let lifetime = credentials.token_response.as_ref().and_then(TokenResponse::expires_in);
    let (Some(lifetime), Some(received)) = (lifetime, credentials.token_received_at) else {
        // A token without a known end is used until the server rejects it.
        return false;
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let age = now.saturating_sub(Duration::from_secs(received));
    let remaining = lifetime.saturating_sub(age);
    remaining.is_zero() || remaining < EXPIRY_MARGIN.min(lifetime / 2)
}

fn token(credentials: &StoredCredentials) -> Option<String> {
    let response = credentials.token_response.as_ref()?;
    Some(response.access_token().secret().clone())
}

/// Returns the text of an error with those of its sources, on one line.
pub(super) fn describe(error: &AuthError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    crate::text::one_line(&text, 500)
}
