//! Logins of Crow as itself, without a user: the grant `client_credentials`.

use std::sync::{Arc, PoisonError};

use rmcp::transport::auth::{AuthError, ClientCredentialsConfig};
use tokio::time::timeout;

use super::{
    discovery::discover,
    http::KeyAuthentication,
    login::{DISCOVERY_LIMIT, LoginChallenge, LoginError, LoginOutcome, requested_scopes},
    stored::{Registration, ServerLogin, SharedRegistration},
};

/// Finds the authorization server, obtains an access token with the credentials of the configuration, and stores it. The
/// caller holds the lock of the login.
///
/// # Errors
/// Fails if the configuration has no credentials, if discovery fails, or if the authorization server refuses.
pub(super) async fn log_in_as_client(
    login: &ServerLogin,
    challenge: &LoginChallenge,
) -> Result<LoginOutcome, LoginError> {
    let settings = login.settings();
    let missing = |what: &str| LoginError::Failed(format!("{what} of the server is not set"));
    let client_id = settings.client_id.clone().ok_or_else(|| missing("`oauth.client_id`"))?;
    if settings.private_key.is_none() && settings.client_secret.is_none() {
        return Err(missing("`oauth.client_secret` or `oauth.private_key`"));
    }
    let http = Arc::new(login.http());
    let failed = |error: AuthError| LoginError::of(&error, &http);
    let registration = SharedRegistration::default();
    // The canonical URI of a server has no slash at its end (RFC 8707 and the protocol).
    let resource = login.url().as_str().trim_end_matches('/').to_owned();
    let obtaining = async {
        let url = login.url().as_str();
        let manager = login.manager(url, Arc::clone(&registration), Arc::clone(&http)).await;
        let mut manager = manager.map_err(failed)?;
        let found = discover(login, &mut manager, challenge.header.as_deref(), &http).await?;
        let scopes = requested_scopes(login, challenge, &manager).await?;
        if let Some(key) = &settings.private_key {
            let key = KeyAuthentication::new(key.clone(), &client_id, &found.metadata);
            http.authenticate_by_key(key);
        }
        let issuer = found.metadata.issuer.clone();
        *registration.lock().unwrap_or_else(PoisonError::into_inner) = Some(Registration {
            client_secret: None,
            redirect_uri: String::new(),
            resource: resource.clone(),
            metadata: found.metadata,
        });
        let config = ClientCredentialsConfig::ClientSecret {
            client_id,
            // With a key, the request gets an assertion in place of the secret.
            client_secret: settings.client_secret.clone().unwrap_or_default(),
            scopes,
            resource: Some(resource),
        };
        manager.configure_client_credentials(&config).map_err(failed)?;
        manager.exchange_client_credentials(&config).await.map_err(failed)?;
        let scopes = login.granted_scopes().await.map_err(LoginError::Failed)?;
        Ok(LoginOutcome { scopes, issuer })
    };
    let limit = DISCOVERY_LIMIT.as_secs();
    let late = || LoginError::Failed(format!("there was no token within {limit} s"));
    timeout(DISCOVERY_LIMIT, obtaining).await.map_err(|_| late())?
}
