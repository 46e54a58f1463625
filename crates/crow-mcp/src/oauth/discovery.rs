//! Discovery of the authorization server, and checks of what it says about itself.

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource,
};
use url::Url;

use super::{
    http::OAuthHttp,
    login::LoginError,
    settings::{OAuthGrant, OAuthSettings},
    stored::ServerLogin,
};
use crate::{browser_page::page_address, text};

/// A discovered authorization server.
#[derive(Debug)]
pub(super) struct AuthorizationServer {
    pub(super) metadata: AuthorizationMetadata,
    /// False if nothing is published, so that the addresses of old servers are assumed.
    pub(super) is_published: bool,
}

/// Finds the authorization server and sets it in `manager`.
///
/// Servers of protocol version 2025-03-26 publish the metadata at their own origin, and some name an issuer below it,
/// against RFC 8414. That is accepted as long as everything in the metadata belongs to this origin.
///
/// # Errors
/// Fails if the metadata cannot be read or used: an address in it is not encrypted, the issuer is another than the
/// configured one, or the server does not support PKCE.
pub(super) async fn discover(
    login: &ServerLogin,
    manager: &mut AuthorizationManager,
    challenge: Option<&str>,
    http: &OAuthHttp,
) -> Result<AuthorizationServer, LoginError> {
    let found = match manager.resolve_metadata_from_challenge(challenge).await {
        Ok(found) => AuthorizationServer {
            is_published: found.source != AuthorizationMetadataSource::LegacyEndpointFallback,
            metadata: found.metadata,
        },
        Err(error @ AuthError::AuthorizationServerMismatch { .. }) => {
            let metadata = own_metadata(login.url(), http).await;
            let metadata = metadata.ok_or_else(|| LoginError::of(&error, http))?;
            AuthorizationServer { metadata, is_published: true }
        }
        Err(error) => return Err(LoginError::of(&error, http)),
    };
    check(&found, login.settings())?;
    let found = match &login.settings().issuer {
        // Any server can claim to be this issuer in its metadata, so the metadata is read from the issuer's own address.
        Some(issuer) => {
            let metadata = metadata_of_issuer(issuer, http).await.ok_or_else(|| {
                LoginError::Failed(format!(
                    "{issuer} publishes no metadata of an authorization server of that name"
                ))
            })?;
            let confirmed = AuthorizationServer { metadata, ..found };
            check(&confirmed, login.settings())?;
            confirmed
        }
        None => found,
    };
    manager.set_metadata(found.metadata.clone());
    Ok(found)
}

/// Returns the metadata that an issuer publishes at its own addresses (RFC 8414 and that of `OpenID`), if it says
/// there that it is this issuer.
async fn metadata_of_issuer(issuer: &str, http: &OAuthHttp) -> Option<AuthorizationMetadata> {
    let url = Url::parse(issuer).ok()?;
    let path = url.path().trim_end_matches('/');
    let mut addresses = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        addresses.push(format!("{path}/.well-known/openid-configuration"));
    }
    for address in addresses {
        let Some(body) = http.get(&url.join(&address).ok()?).await else { continue };
        let metadata = serde_json::from_slice::<AuthorizationMetadata>(&body).ok();
        if let Some(metadata) = metadata.filter(|found| found.issuer.as_deref() == Some(issuer)) {
            return Some(metadata);
        }
    }
    None
}

/// Returns the metadata at a server's own origin, if all its addresses belong to this origin.
async fn own_metadata(server: &Url, http: &OAuthHttp) -> Option<AuthorizationMetadata> {
    let url = server.join("/.well-known/oauth-authorization-server").ok()?;
    let body = http.get(&url).await?;
    let metadata: AuthorizationMetadata = serde_json::from_slice(&body).ok()?;
    let addresses = [
        Some(&metadata.authorization_endpoint),
        Some(&metadata.token_endpoint),
        metadata.registration_endpoint.as_ref(),
        metadata.issuer.as_ref(),
    ];
    let is_own = |address: &String| {
        Url::parse(address).is_ok_and(|address| address.origin() == server.origin())
    };
    let all_own = addresses.into_iter().flatten().all(is_own);
    all_own.then_some(metadata)
}

fn check(server: &AuthorizationServer, settings: &OAuthSettings) -> Result<(), LoginError> {
    let metadata = &server.metadata;
    if let Some(issuer) = &settings.issuer
        && metadata.issuer.as_ref() != Some(issuer)
    {
        let found = text::one_line(metadata.issuer.as_deref().unwrap_or("none"), 200);
        return Err(LoginError::Failed(format!(
            "the authorization server is {found}, but `oauth.issuer` of the server is {issuer}"
        )));
    }
    // Codes, secrets and tokens go to these addresses.
    let endpoints = [Some(&metadata.token_endpoint), metadata.registration_endpoint.as_ref()];
    for address in endpoints.into_iter().flatten() {
        page_address(address).map_err(|why| {
            let shown = text::one_line(address, 200);
            LoginError::Failed(format!("an address of the authorization server {why}: {shown}"))
        })?;
    }
    // Without PKCE, a code that is intercepted can be used by others. A server that does not name the method does not
    // support it, says the protocol.
    let methods = metadata.code_challenge_methods_supported.as_ref();
    let has_pkce = methods.is_some_and(|methods| methods.iter().any(|method| method == "S256"));
    let needs_pkce = settings.grant == OAuthGrant::AuthorizationCode;
    if server.is_published && needs_pkce && !has_pkce {
        return Err(LoginError::Failed(
            "the authorization server does not support PKCE with S256, which protects the login"
                .to_owned(),
        ));
    }
    Ok(())
}
