//! Stored logins, and the access tokens from them.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
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
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use url::Url;

use super::{
    client_login::log_in_as_client,
    http::{KeyAuthentication, OAuthHttp},
    login::LoginChallenge,
    settings::{OAuthGrant, OAuthSettings},
};

/// Time before its end from which on a token counts as expired.
const EXPIRY_MARGIN: Duration = Duration::from_secs(30);
/// Time limit of a renewal, with the wait for one that goes on.
const RENEWAL_LIMIT: Duration = Duration::from_mins(1);

/// Storage of logins: one text per server. The texts are secret.
#[async_trait]
pub trait LoginStorage: Send + Sync + fmt::Debug {
    /// Returns the login at the server with this URL, if one is stored.
    async fn load(&self, url: &str) -> Result<Option<String>, LoginStorageError>;

    /// Stores a login, replacing an earlier one.
    async fn save(&self, url: &str, login: String) -> Result<(), LoginStorageError>;

    /// Removes a login. Returns true if there was one.
    async fn remove(&self, url: &str) -> Result<bool, LoginStorageError>;

    /// Waits for the exclusive right to change the login at this server, also against other processes. It ends when the
    /// value is dropped. The other methods can be called meanwhile.
    async fn lock_login(&self, url: &str) -> Result<Box<dyn Send>, LoginStorageError>;

    /// Is told secrets as soon as they are known, so that they can be redacted.
    fn keep_secret(&self, secret: &str) {
        let _ = secret;
    }
}

/// Error of a storage of logins: a sentence for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LoginStorageError(pub String);

/// A login as it is stored.
#[derive(Clone, Serialize, Deserialize)]
struct StoredLogin {
    /// The registration of Crow.
    registration: Registration,
    credentials: StoredCredentials,
}

impl StoredLogin {
    /// Returns true unless the configuration has changed since: then it is the login of somebody else, or elsewhere.
    fn fits(&self, settings: &OAuthSettings) -> bool {
        let issuer = self.registration.metadata.issuer.as_ref();
        self.registration.grant == settings.grant
            && settings.client_id.as_ref().is_none_or(|id| *id == self.credentials.client_id)
            && settings.issuer.as_ref().is_none_or(|pinned| issuer == Some(pinned))
    }
}

/// The registration of Crow at an authorization server, and what a renewal needs of that server. It is stored, so that the
/// renewal of a user's login goes to the server at which the user logged in, whatever is discovered later.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Registration {
    /// Secret that the authorization server issued for Crow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
    /// The way to the tokens.
    #[serde(default)]
    pub(super) grant: OAuthGrant,
    /// The scopes that were requested: those that are granted if the answer names none (RFC 6749, 5.1).
    #[serde(default)]
    pub(super) requested_scopes: Vec<String>,
    /// Redirect address; empty for a login without a user.
    pub(super) redirect_uri: String,
    /// Identifier of the MCP server in token requests.
    pub(super) resource: String,
    /// The authorization server.
    pub(super) metadata: AuthorizationMetadata,
}

/// A registration that becomes known during a login.
pub(super) type SharedRegistration = Arc<Mutex<Option<Registration>>>;

/// The login at a server. Clones share their state.
#[derive(Clone)]
pub(crate) struct ServerLogin(Arc<LoginState>);

struct LoginState {
    storage: Arc<dyn LoginStorage>,
    http: Arc<dyn Http>,
    url: Url,
    settings: OAuthSettings,
    /// Renewals run here: a server accepts a refresh token once, so one that was sent must not be dropped.
    tasks: TaskTracker,
}

impl ServerLogin {
    pub(crate) fn new(
        storage: Arc<dyn LoginStorage>,
        http: Arc<dyn Http>,
        url: Url,
        settings: OAuthSettings,
        tasks: TaskTracker,
    ) -> Self {
        Self(Arc::new(LoginState { storage, http, url, settings, tasks }))
    }

    pub(super) fn url(&self) -> &Url {
        &self.0.url
    }

    pub(super) fn settings(&self) -> &OAuthSettings {
        &self.0.settings
    }

    pub(super) fn storage(&self) -> &dyn LoginStorage {
        self.0.storage.as_ref()
    }

    /// Returns the access token, renewed if it expires soon. `None` if the user has to log in.
    pub(crate) async fn access_token(&self) -> Result<Option<String>, String> {
        let Some(login) = self.load().await? else { return Ok(None) };
        let current = token(&login.credentials);
        let Some(remaining) = remaining_time(&login.credentials).filter(expires_soon) else {
            return Ok(current);
        };
        match self.renew(current.as_deref()).await {
            // It is valid for the rest of its time.
            Err(_) if !remaining.left.is_zero() => Ok(current),
            renewed => renewed,
        }
    }

    /// Returns the stored access token as it is.
    pub(crate) async fn stored_token(&self) -> Result<Option<String>, String> {
        Ok(self.load().await?.and_then(|login| token(&login.credentials)))
    }

    /// Returns an access token other than `rejected`, renewed if necessary. `None` if the user has to log in. The renewal
    /// continues if the caller is dropped.
    pub(crate) async fn renew(&self, rejected: Option<&str>) -> Result<Option<String>, String> {
        let (login, rejected) = (self.clone(), rejected.map(str::to_owned));
        let renewing = self.0.tasks.spawn(async move {
            let renewing = timeout(RENEWAL_LIMIT, login.renew_locked(rejected.as_deref())).await;
            renewing.unwrap_or_else(|_| {
                let limit = RENEWAL_LIMIT.as_secs();
                Err(format!("the login was not renewed within {limit} s"))
            })
        });
        renewing.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Returns true if no user takes part in a login: Crow logs in as itself.
    pub(crate) fn is_without_user(&self) -> bool {
        self.0.settings.grant == OAuthGrant::ClientCredentials
    }

    /// Logs in without a user, and returns the access token. `rejected` is the one that the server did not accept. The login
    /// continues if the caller is dropped.
    pub(crate) async fn log_in_without_user(
        &self,
        challenge: LoginChallenge,
        rejected: Option<&str>,
    ) -> Result<Option<String>, String> {
        let (login, rejected) = (self.clone(), rejected.map(str::to_owned));
        let logging_in = self.0.tasks.spawn(async move {
            let url = login.0.url.as_str();
            let _lock = login.0.storage.lock_login(url).await.map_err(|error| error.to_string())?;
            // Another request or process may have logged in already, with the same permissions.
            let current = login.stored_token().await?;
            let granted = login.granted_scopes().await?;
            let suffices = !challenge.needs_more_scopes
                || challenge.scopes(&login.0.url).iter().all(|scope| granted.contains(scope));
            if current.is_some() && current != rejected && suffices {
                return Ok(current);
            }
            let logged_in = log_in_as_client(&login, &challenge, false).await;
            logged_in.map_err(|error| format!("Crow cannot log in there: {error}"))?;
            login.stored_token().await
        });
        logging_in.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    async fn renew_locked(&self, rejected: Option<&str>) -> Result<Option<String>, String> {
        let url = self.0.url.as_str();
        let _lock = self.0.storage.lock_login(url).await.map_err(|error| error.to_string())?;
        let Some(login) = self.load().await? else { return Ok(None) };
        // Another request or process may have renewed it already.
        let current = token(&login.credentials);
        let is_usable =
            remaining_time(&login.credentials).is_none_or(|remaining| !expires_soon(&remaining));
        if current.as_deref() != rejected && is_usable {
            return Ok(current);
        }
        if self.is_without_user() {
            let logged_in = log_in_as_client(self, &LoginChallenge::default(), false).await;
            logged_in.map_err(|error| format!("the login cannot be renewed: {error}"))?;
            return self.stored_token().await;
        }
        let response = login.credentials.token_response.as_ref();
        if response.and_then(TokenResponse::refresh_token).is_none() {
            return Ok(None);
        }
        let http = Arc::new(self.http());
        let renewed = async {
            let registration = &login.registration;
            let shared = Arc::new(Mutex::new(Some(registration.clone())));
            let mut manager =
                self.manager(&registration.resource, shared, Arc::clone(&http)).await?;
            manager.set_metadata(registration.metadata.clone());
            let id = login.credentials.client_id.clone();
            let mut client = OAuthClientConfig::new(id.clone(), &registration.redirect_uri);
            // The user may have changed the secret of the own registration.
            let settings = &self.0.settings;
            let is_own = settings.client_id.as_ref() == Some(&id);
            client.client_secret = if is_own {
                settings.client_secret.clone()
            } else {
                registration.client_secret.clone()
            };
            if let Some(key) = settings.private_key.as_ref().filter(|_| is_own) {
                let key = KeyAuthentication::new(key.clone(), &id, &registration.metadata);
                http.authenticate_by_key(key);
            }
            manager.configure_client(client)?;
            manager.refresh_token().await
        };
        match renewed.await {
            Ok(_) => self.stored_token().await,
            Err(AuthError::AuthorizationRequired) => Ok(None),
            Err(AuthError::TokenRefreshRejected(_)) => {
                self.forget().await;
                Ok(None)
            }
            // The registration is gone.
            Err(AuthError::TokenRefreshFailed(why))
                if why.contains("invalid_client") || why.contains("unauthorized_client") =>
            {
                self.forget().await;
                Ok(None)
            }
            Err(error) => Err(format!("the login cannot be renewed: {}", http.describe(&error))),
        }
    }

    /// Removes a login that cannot be renewed.
    async fn forget(&self) {
        if let Err(error) = self.0.storage.remove(self.0.url.as_str()).await {
            tracing::debug!(%error, "a login cannot be removed");
        }
    }

    /// Returns token and scopes of the stored login, to see whether another request changed it.
    pub(crate) async fn state(&self) -> Result<Option<(Option<String>, Vec<String>)>, String> {
        let login = self.load().await?;
        Ok(login.map(|login| (token(&login.credentials), login.credentials.granted_scopes)))
    }

    /// Returns the scopes that the stored login grants.
    pub(super) async fn granted_scopes(&self) -> Result<Vec<String>, String> {
        Ok(self.load().await?.map(|login| login.credentials.granted_scopes).unwrap_or_default())
    }

    /// Creates the library's manager of this login. It stores the tokens that it obtains together with `registration`.
    pub(super) async fn manager(
        &self,
        resource: &str,
        registration: SharedRegistration,
        http: Arc<OAuthHttp>,
    ) -> Result<AuthorizationManager, AuthError> {
        let mut manager = AuthorizationManager::new_with_oauth_http_client(resource, http).await?;
        manager.set_credential_store(LibraryStore { login: self.clone(), registration });
        Ok(manager)
    }

    /// Returns the client for the requests of one login or renewal.
    pub(super) fn http(&self) -> OAuthHttp {
        let http = Arc::clone(&self.0.http);
        OAuthHttp::new(http, self.0.url.clone(), self.0.settings.private_network)
    }

    async fn load(&self) -> Result<Option<StoredLogin>, String> {
        let text = self.0.storage.load(self.0.url.as_str()).await;
        let Some(text) = text.map_err(|error| error.to_string())? else { return Ok(None) };
        // The parser's message could quote a secret.
        let broken = |_| {
            let host = self.0.url.host_str().unwrap_or_default();
            format!("the stored login at {host} is broken; log in again")
        };
        let login: StoredLogin = serde_json::from_str(&text).map_err(broken)?;
        self.keep_secrets(&login.credentials);
        Ok(Some(login).filter(|login| login.fits(&self.0.settings)))
    }

    fn keep_secrets(&self, credentials: &StoredCredentials) {
        let Some(response) = &credentials.token_response else { return };
        self.0.storage.keep_secret(response.access_token().secret());
        if let Some(token) = response.refresh_token() {
            self.0.storage.keep_secret(token.secret());
        }
    }
}

impl fmt::Debug for ServerLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerLogin").field(&self.0.url.host_str()).finish()
    }
}

/// The storage of a login as the library wants it.
struct LibraryStore {
    login: ServerLogin,
    registration: SharedRegistration,
}

#[async_trait]
impl CredentialStore for LibraryStore {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let stored = self.login.load().await.map_err(AuthError::CredentialStoreError)?;
        Ok(stored.map(|login| login.credentials))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let failed = |why: String| AuthError::CredentialStoreError(why);
        self.login.keep_secrets(&credentials);
        let registration = self.registration.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let registration =
            registration.ok_or_else(|| failed("there is no registration".to_owned()))?;
        let mut login = StoredLogin { registration, credentials };
        if login.credentials.granted_scopes.is_empty() {
            login.credentials.granted_scopes.clone_from(&login.registration.requested_scopes);
        }
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

/// The time until a token expires.
struct RemainingTime {
    left: Duration,
    lifetime: Duration,
}

/// Returns the time until the access token expires; `None` if that is not known. Then it is used until it is rejected.
fn remaining_time(credentials: &StoredCredentials) -> Option<RemainingTime> {
    let lifetime = credentials.token_response.as_ref()?.expires_in()?;
    let received = Duration::from_secs(credentials.token_received_at?);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(RemainingTime { left: lifetime.saturating_sub(now.saturating_sub(received)), lifetime })
}

/// Returns true within [`EXPIRY_MARGIN`] before the end, or in the second half of a shorter lifetime.
fn expires_soon(remaining: &RemainingTime) -> bool {
    remaining.left.is_zero() || remaining.left < EXPIRY_MARGIN.min(remaining.lifetime / 2)
}

fn token(credentials: &StoredCredentials) -> Option<String> {
    let response = credentials.token_response.as_ref()?;
    Some(response.access_token().secret().clone())
}
