//! Logins of Crow as itself, without a user: the grant `client_credentials`.

use std::sync::{Arc, PoisonError};

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, ClientCredentialsConfig, OAuthClientConfig,
};
use tokio::time::timeout;

use super::{
    discovery::discover,
    http::KeyAuthentication,
    login::{
        DISCOVERY_LIMIT, LoginChallenge, LoginError, LoginOutcome, query_value, requested_scopes,
    },
    stored::{Registration, ServerLogin, SharedRegistration},
};

/// Finds the authorization server, obtains an access token with the credentials of the configuration, and stores it. The
/// caller holds the lock of the login.
///
/// # Errors
/// Fails if the configuration has no credentials, if the server publishes no authorization server, if discovery fails, or if
/// the authorization server refuses.
pub(super) async fn log_in_as_client(
    login: &ServerLogin,
    challenge: &LoginChallenge,
    is_optional: bool,
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
    let obtaining = async {
        let url = login.url().as_str();
        let manager = login.manager(url, Arc::clone(&registration), Arc::clone(&http)).await;
        let mut manager = manager.map_err(failed)?;
        let found = discover(login, &mut manager, challenge.header.as_deref(), &http).await?;
        if !found.is_published {
            // Credentials go only where somebody says that they belong.
            let why = "the server publishes no authorization server, to which credentials could go";
            return Err(if is_optional {
                LoginError::NotNeeded
            } else {
                LoginError::Failed(why.to_owned())
            });
        }
        let scopes = requested_scopes(login, challenge, &manager).await?;
        let resource = resource(login, &client_id, &mut manager).await;
        if let Some(key) = &settings.private_key {
            let key = KeyAuthentication::new(key.clone(), &client_id, &found.metadata);
            http.authenticate_by_key(key);
        }
        let issuer = found.metadata.issuer.clone();
        *registration.lock().unwrap_or_else(PoisonError::into_inner) = Some(Registration {
            client_secret: None,
            grant: settings.grant,
            requested_scopes: scopes.clone(),
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

/// Returns the identifier of the MCP server in requests: the one that it publishes, else its URL.
///
/// The library tells it only as a part of the address of an authorization page, which it makes only for servers that
/// support PKCE.
async fn resource(
    login: &ServerLogin,
    client_id: &str,
    manager: &mut AuthorizationManager,
) -> String {
    let client = OAuthClientConfig::new(client_id, "http://127.0.0.1/");
    let page = match manager.configure_client(client) {
        Ok(()) => manager.get_authorization_url(&[]).await.ok(),
        Err(_) => None,
    };
    // The canonical URI of a server has no slash at its end (RFC 8707 and the protocol).
    let own = || login.url().as_str().trim_end_matches('/').to_owned();
    page.and_then(|page| query_value(&page, "resource")).unwrap_or_else(own)
}
