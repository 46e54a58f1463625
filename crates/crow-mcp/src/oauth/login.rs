//! A login: from the server's challenge to the stored tokens.

use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError},
    time::Duration,
};

use rmcp::transport::{
    auth::{AuthError, AuthorizationManager, OAuthClientConfig, WWWAuthenticateParams},
    streamable_http_client::StreamableHttpError,
};
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{
    client_login::log_in_as_client,
    dialog::{AuthorizationPage, LoginDialog, RedirectListener, UserBrowser},
    discovery::{AuthorizationServer, discover},
    http::{KeyAuthentication, OAuthHttp},
    settings::OAuthGrant,
    stored::{Registration, ServerLogin, SharedRegistration},
};
use crate::{browser_page::page_address, text};

/// Time limit of the user's part of a login.
const USER_LIMIT: Duration = Duration::from_mins(15);
/// Time limit of discovery and registration.
pub(super) const DISCOVERY_LIMIT: Duration = Duration::from_mins(1);
/// Name under which Crow registers at authorization servers.
const CLIENT_NAME: &str = "Crow";
/// Scope of a login that lasts while the user is away.
const OFFLINE_ACCESS: &str = "offline_access";
/// Maximum number of scopes, and maximum length of one in bytes.
const MOST_SCOPES: usize = 100;
const LONGEST_SCOPE: usize = 200;

/// The server's answer to a request without sufficient authorization.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LoginChallenge {
    /// Value of the header `WWW-Authenticate`.
    pub(crate) header: Option<String>,
    /// True if a token was accepted, but its scopes do not suffice.
    pub(crate) needs_more_scopes: bool,
}

impl LoginChallenge {
    /// Returns the challenge in an error of a request; none if it does not ask for a login.
    pub(crate) fn of<E: std::error::Error + Send + Sync + 'static>(
        error: &StreamableHttpError<E>,
    ) -> Option<Self> {
        let needs_more_scopes = matches!(error, StreamableHttpError::InsufficientScope(_));
        let header = error.auth_challenge()?;
        let header = Some(header.to_owned()).filter(|header| !header.is_empty());
        Some(Self { header, needs_more_scopes })
    }

    /// Returns the scopes that the challenge names.
    pub(crate) fn scopes(&self, url: &Url) -> Vec<String> {
        let header = self.header.as_deref().unwrap_or_default();
        let scope = WWWAuthenticateParams::parse(header, url).scope.unwrap_or_default();
        scope.split_whitespace().map(str::to_owned).collect()
    }
}

/// A completed login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginOutcome {
    /// Scopes that the login grants.
    pub scopes: Vec<String>,
    /// Identifier of the authorization server, if it has one.
    pub issuer: Option<String>,
}

/// Error of a login.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The user does not want to log in, or gave up.
    #[error("the login was not completed")]
    Declined,
    /// The login was cancelled.
    #[error("the login was cancelled")]
    Cancelled,
    /// The user did not complete the login in time.
    #[error("the login was not completed within {} minutes", USER_LIMIT.as_secs() / 60)]
    TimedOut,
    /// The authorization server refused.
    #[error("the authorization server refused the login: {0}")]
    Refused(String),
    /// The login cannot begin or complete: what the servers offer, or what is configured, does not permit it.
    #[error("{0}")]
    Failed(String),
    /// The server needs no login.
    #[error("the server needs no login")]
    NotNeeded,
}

impl LoginError {
    /// Converts an error of the library, with the last error of its requests.
    pub(super) fn of(error: &AuthError, http: &OAuthHttp) -> Self {
        let message = match error {
            AuthError::AuthorizationServerMismatch { expected_issuer, received_issuer } => format!(
                "the answer comes from another authorization server than the one asked: {} instead of {}",
                text::one_line(received_issuer, 200),
                text::one_line(expected_issuer, 200),
            ),
            AuthError::ClientCredentialsError(why) => {
                if let Some((_, answer)) = why.split_once("Server returned error response: ") {
                    return Self::Refused(text::one_line(answer, 300));
                }
                http.describe(error)
            }
            error => http.describe(error),
        };
        Self::Failed(message)
    }
}

/// Logs in at a server and stores the tokens. If `is_optional`, the server accepts requests without a login, and one is
/// made only if the server publishes how.
///
/// # Errors
/// Fails if the user declines or is not done in time, if the authorization server refuses, or if discovery,
/// registration, the redirect or the exchange of the code for tokens fails.
pub(crate) async fn log_in(
    login: &ServerLogin,
    server: &str,
    challenge: &LoginChallenge,
    is_optional: bool,
    browser: Option<&Arc<dyn UserBrowser>>,
    dialog: &dyn LoginDialog,
    cancel: &CancellationToken,
) -> Result<LoginOutcome, LoginError> {
    let settings = login.settings();
    if settings.grant == OAuthGrant::ClientCredentials {
        let steps = async {
            let lock = login.storage().lock_login(login.url().as_str()).await;
            let _lock = lock.map_err(|error| LoginError::Failed(error.to_string()))?;
            log_in_as_client(login, challenge, is_optional).await
        };
        return cancel.run_until_cancelled(steps).await.unwrap_or(Err(LoginError::Cancelled));
    }
    let browser = browser.ok_or_else(|| LoginError::Failed("there is no browser".to_owned()))?;
    let steps = async {
        let listener = browser.listen(settings.redirect_port).await;
        let mut listener = listener.map_err(LoginError::Failed)?;
        let redirect_uri = listener.redirect_uri().to_owned();
        let http = Arc::new(login.http());
        let registration = SharedRegistration::default();

        // 1) The authorization server, and the identity of Crow there.
        let preparing = async {
            let (url, http) = (login.url().as_str(), Arc::clone(&http));
            let manager = login.manager(url, Arc::clone(&registration), Arc::clone(&http)).await;
            let mut manager = manager.map_err(|error| LoginError::of(&error, &http))?;
            let header = challenge.header.as_deref();
            let found = discover(login, &mut manager, header, &http).await?;
            if is_optional && !found.is_published {
                return Err(LoginError::NotNeeded);
            }
            let scopes = requested_scopes(login, challenge, &manager).await?;
            let client =
                identity(login, &mut manager, &found, &redirect_uri, &scopes, &http).await?;
            Ok((manager, found, scopes, client))
        };
        let prepared = timeout(DISCOVERY_LIMIT, preparing).await;
        let late = || {
            let limit = DISCOVERY_LIMIT.as_secs();
            LoginError::Failed(format!("the authorization server was not found within {limit} s"))
        };
        let (mut manager, found, scopes, client) = prepared.map_err(|_| late())??;
        let client_secret = client.client_secret.clone();
        if let Some(key) = &settings.private_key {
            let key = KeyAuthentication::new(key.clone(), &client.client_id, &found.metadata);
            http.authenticate_by_key(key);
        }
        let failed = |error: AuthError| LoginError::of(&error, &http);
        manager.configure_client(client).map_err(failed)?;
        let names: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let url = manager.get_authorization_url(&names).await.map_err(failed)?;
        *registration.lock().unwrap_or_else(PoisonError::into_inner) = Some(Registration {
            client_secret,
            grant: settings.grant,
            requested_scopes: scopes.clone(),
            redirect_uri,
            resource: query_value(&url, "resource").unwrap_or_else(|| login.url().to_string()),
            metadata: found.metadata.clone(),
        });

        // 2) The user authorizes Crow in the browser.
        let page = authorization_page(server, &url, scopes, &found)?;
        let state = query_value(&page.url, "state").unwrap_or_default();
        let authorizing = async {
            if !dialog.confirm(&page).await {
                return Err(LoginError::Declined);
            }
            if let Err(why) = browser.open(&page.url).await {
                dialog.browser_failed(&page, &why).await;
            }
            wait_for_redirect(listener.as_mut(), &state, dialog, cancel).await
        };
        let redirected = timeout(USER_LIMIT, authorizing).await;
        let redirected = redirected.map_err(|_| LoginError::TimedOut)??;

        // 3) The code is exchanged for tokens, which replace those of an earlier login.
        let code = query_value(&redirected, "code").expect("invariant: a redirect has a code");
        login.storage().keep_secret(&code);
        let issuer = query_value(&redirected, "iss");
        let _lock = login.storage().lock_login(login.url().as_str()).await;
        manager
            .exchange_code_for_token_with_issuer(&code, &state, issuer.as_deref())
            .await
            .map_err(failed)?;
        let scopes = login.granted_scopes().await.map_err(LoginError::Failed)?;
        Ok(LoginOutcome { scopes, issuer: found.metadata.issuer })
    };
    cancel.run_until_cancelled(steps).await.unwrap_or(Err(LoginError::Cancelled))
}

/// Returns the scopes to request: the configured ones, otherwise those that the server names. A login with more scopes
/// also keeps those that it has.
pub(super) async fn requested_scopes(
    login: &ServerLogin,
    challenge: &LoginChallenge,
    manager: &AuthorizationManager,
) -> Result<Vec<String>, LoginError> {
    let mut scopes = if login.settings().scopes.is_empty() {
        manager.select_initial_scopes(&[]).await
    } else {
        login.settings().scopes.clone()
    };
    let is_without_user = login.settings().grant == OAuthGrant::ClientCredentials;
    if is_without_user && login.settings().scopes.is_empty() {
        // Such a login has no session that could last while the user is away, and servers refuse to begin one.
        scopes.retain(|scope| scope != OFFLINE_ACCESS);
    }
    if challenge.needs_more_scopes {
        scopes.extend(challenge.scopes(login.url()));
    }
    // A new login without a user keeps the scopes of the previous one.
    if challenge.needs_more_scopes || is_without_user {
        scopes.extend(login.granted_scopes().await.map_err(LoginError::Failed)?);
    }
    let mut seen = BTreeSet::new();
    scopes.retain(|scope| seen.insert(scope.clone()));
    // RFC 6749, 3.3.
    let is_char = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    let is_valid = |scope: &String| {
        !scope.is_empty() && scope.len() <= LONGEST_SCOPE && scope.bytes().all(is_char)
    };
    if scopes.len() > MOST_SCOPES || !scopes.iter().all(is_valid) {
        let why = "the server names scopes that are not valid; set `oauth.scopes` of the server";
        return Err(LoginError::Failed(why.to_owned()));
    }
    Ok(scopes)
}

/// Returns the identity of Crow at the authorization server: a registration by the user, a document, or a registration
/// that is made now.
async fn identity(
    login: &ServerLogin,
    manager: &mut AuthorizationManager,
    found: &AuthorizationServer,
    redirect_uri: &str,
    scopes: &[String],
    http: &OAuthHttp,
) -> Result<OAuthClientConfig, LoginError> {
    let settings = login.settings();
    let accepts_documents =
        found.metadata.additional_fields.get("client_id_metadata_document_supported");
    let accepts_documents = accepts_documents.and_then(Value::as_bool) == Some(true);
    match (&settings.client_id, &settings.client_metadata_url) {
        (Some(id), _) => {
            let mut client = OAuthClientConfig::new(id, redirect_uri);
            client.client_secret.clone_from(&settings.client_secret);
            return Ok(client);
        }
        (None, Some(url)) if accepts_documents => {
            return Ok(OAuthClientConfig::new(url, redirect_uri));
        }
        (None, _) => {}
    }
    let names: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let registered = manager.register_client(CLIENT_NAME, redirect_uri, &names).await;
    registered.map_err(|error| match error {
        AuthError::RegistrationFailed(_) if !found.is_published => LoginError::Failed(
            "the server wants credentials, but publishes no login; if it takes a key, set it in `headers` of the server"
                .to_owned(),
        ),
        AuthError::RegistrationFailed(why) => LoginError::Failed(format!(
            "Crow cannot register at the authorization server ({}); register it there by hand and set `oauth.client_id` of the server",
            text::one_line(&why, 300)
        )),
        error => LoginError::of(&error, http),
    })
}

fn authorization_page(
    server: &str,
    url: &str,
    scopes: Vec<String>,
    found: &AuthorizationServer,
) -> Result<AuthorizationPage, LoginError> {
    let (url, host) = page_address(url).map_err(|why| {
        let shown = text::one_line(url, 200);
        LoginError::Failed(format!("the address of the authorization page {why}: {shown}"))
    })?;
    let token_host = page_address(&found.metadata.token_endpoint).ok().map(|(_, host)| host);
    let token_host = token_host.filter(|token_host| *token_host != host);
    Ok(AuthorizationPage { server: server.to_owned(), url, host, token_host, scopes })
}

/// Waits for the address with the code: from the browser, or pasted by the user.
async fn wait_for_redirect(
    listener: &mut dyn RedirectListener,
    state: &str,
    dialog: &dyn LoginDialog,
    cancel: &CancellationToken,
) -> Result<String, LoginError> {
    let uri = listener.redirect_uri().to_owned();
    let redirected = listener.wait_for_redirect(state);
    tokio::pin!(redirected);
    let mut fault = None;
    loop {
        // Withdraws the question when the browser was redirected.
        let question = cancel.child_token();
        let _withdraw = question.clone().drop_guard();
        let (address, is_pasted) = tokio::select! {
            address = &mut redirected => (address, false),
            pasted = dialog.read_pasted(fault.as_deref(), &question) => match pasted {
                Some(text) => (to_address(&text, &uri, state), true),
                None => return Err(LoginError::Declined),
            },
        };
        if let Some(error) = query_value(&address, "error") {
            let description = query_value(&address, "error_description");
            let text = description.map(|text| format!("{error}: {text}")).unwrap_or(error);
            return Err(LoginError::Refused(text::one_line(&text, 300)));
        }
        let is_own = query_value(&address, "state").as_deref() == Some(state);
        match query_value(&address, "code") {
            Some(_) if is_own => return Ok(address),
            Some(_) => fault = Some("This address belongs to another login".to_owned()),
            None if is_pasted => fault = Some("This address contains no code".to_owned()),
            None => {
                let why = "the browser came back without a code".to_owned();
                return Err(LoginError::Failed(why));
            }
        }
    }
}

/// Converts what a user pasted to an address: a code alone is completed.
fn to_address(pasted: &str, redirect_uri: &str, state: &str) -> String {
    let pasted = pasted.trim();
    if pasted.contains("://") || pasted.contains(char::is_whitespace) || pasted.is_empty() {
        return pasted.to_owned();
    }
    let Ok(mut url) = Url::parse(redirect_uri) else { return pasted.to_owned() };
    url.query_pairs_mut().append_pair("code", pasted).append_pair("state", state);
    url.into()
}

/// Returns the value of a parameter in the query of an address; none if it is absent, empty or ambiguous.
pub(super) fn query_value(address: &str, name: &str) -> Option<String> {
    let url = Url::parse(address).ok()?;
    let mut values = url.query_pairs().filter(|(key, _)| key == name);
    let value = values.next()?.1.into_owned();
    (values.next().is_none() && !value.is_empty()).then_some(value)
}
