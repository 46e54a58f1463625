//! A login: from the server's challenge to the stored tokens.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rmcp::transport::{
    auth::{AuthError, AuthorizationManager, OAuthClientConfig},
    streamable_http_client::StreamableHttpError,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{
    dialog::{AuthorizationPage, LoginDialog, RedirectListener, UserBrowser},
    stored::{Registration, ServerLogin, describe},
};
use crate::{browser_page::page_address, text};

/// Time limit of the user's part of a login.
const USER_LIMIT: Duration = Duration::from_mins(15);
/// Name under which Crow registers at authorization servers.
const CLIENT_NAME: &str = "Crow";

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

impl From<AuthError> for LoginError {
    fn from(error: AuthError) -> Self {
        Self::Failed(match error {
            AuthError::AuthorizationServerMismatch { expected_issuer, received_issuer } => format!(
                "the answer comes from another authorization server than the one asked: {} instead of {}",
                text::one_line(&received_issuer, 200),
                text::one_line(&expected_issuer, 200),
            ),
            AuthError::PkceUnsupported => {
                "the authorization server does not support PKCE with S256, which protects the login"
                    .to_owned()
            }
            error => describe(&error),
        })
    }
}

/// Logs in at a server and stores the tokens.
///
/// # Errors
/// Fails if the user declines or is not done in time, if the authorization server refuses, or if discovery,
/// registration, the redirect or the exchange of the code for tokens fails.
pub(crate) async fn log_in(
    login: &ServerLogin,
    server: &str,
    challenge: &LoginChallenge,
    browser: &Arc<dyn UserBrowser>,
    dialog: &dyn LoginDialog,
    cancel: &CancellationToken,
) -> Result<LoginOutcome, LoginError> {
    let steps = async {
        let settings = login.settings();
        let mut listener =
            browser.listen(settings.redirect_port).await.map_err(LoginError::Failed)?;
        let redirect_uri = listener.redirect_uri().to_owned();
        let registration = Arc::new(Mutex::new(Registration {
            client_secret: None,
            redirect_uri: redirect_uri.clone(),
        }));

        // 1) Discovery, and the scopes to request.
        let mut manager = login.manager(Arc::clone(&registration)).await?;
        let metadata = login.discover(&mut manager, challenge.header.as_deref()).await?;
        let mut scopes = if settings.scopes.is_empty() {
            manager.select_initial_scopes(&[]).await
        } else {
            settings.scopes.clone()
        };
        if challenge.needs_more_scopes {
            scopes.extend(login.granted_scopes().await.map_err(LoginError::Failed)?);
        }
        let mut seen = BTreeSet::new();
        scopes.retain(|scope| seen.insert(scope.clone()));

        // 2) The identity of Crow: a registration by the user, a document, or a registration now.
        let is_document_accepted = metadata
            .additional_fields
            .get("client_id_metadata_document_supported")
            .and_then(serde_json::Value::as_bool)
            == Some(true);
        let client = match (&settings.client_id, &settings.client_metadata_url) {
            (Some(id), _) => {
                let mut client = OAuthClientConfig::new(id, &redirect_uri);
                client.client_secret.clone_from(&settings.client_secret);
                client
            }
            (None, Some(url)) if is_document_accepted => OAuthClientConfig::new(url, &redirect_uri),
            (None, _) => register(&mut manager, &redirect_uri, &scopes).await?,
        };
        registration
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .client_secret
            .clone_from(&client.client_secret);
        manager.configure_client(client)?;
        let scopes_text: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let url = manager.get_authorization_url(&scopes_text).await?;

        // 3) The user authorizes Crow in the browser.
        let (url, host) = page_address(&url).map_err(|why| {
            let shown = text::one_line(&url, 200);
            LoginError::Failed(format!("the address of the authorization page {why}: {shown}"))
        })?;
        let page = AuthorizationPage { server: server.to_owned(), url, host, scopes };
        let state = query_value(&page.url, "state").unwrap_or_default();
        if !dialog.confirm(&page).await {
            return Err(LoginError::Declined);
        }
        if let Err(why) = browser.open(&page.url).await {
            dialog.browser_failed(&page, &why).await;
        }
        let redirected = redirect(listener.as_mut(), &state, dialog, cancel);
        let redirected =
            timeout(USER_LIMIT, redirected).await.map_err(|_| LoginError::TimedOut)??;

        // 4) The code is exchanged for tokens.
        let code = query_value(&redirected, "code").expect("invariant: a redirect has a code");
        let issuer = query_value(&redirected, "iss");
        manager.exchange_code_for_token_with_issuer(&code, &state, issuer.as_deref()).await?;
        let scopes = login.granted_scopes().await.map_err(LoginError::Failed)?;
        Ok(LoginOutcome { scopes, issuer: metadata.issuer })
    };
    cancel.run_until_cancelled(steps).await.unwrap_or(Err(LoginError::Cancelled))
}

async fn register(
    manager: &mut AuthorizationManager,
    redirect_uri: &str,
    scopes: &[String],
) -> Result<OAuthClientConfig, LoginError> {
    let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
    manager.register_client(CLIENT_NAME, redirect_uri, &scopes).await.map_err(|error| match error {
        AuthError::RegistrationFailed(why) => LoginError::Failed(format!(
            "Crow cannot register at the authorization server ({}); register it there by hand and set `oauth.client_id` of the server",
            text::one_line(&why, 300)
        )),
        error => error.into(),
    })
}

/// Waits for the address with the code: from the browser, or pasted by the user.
async fn redirect(
    listener: &mut dyn RedirectListener,
    state: &str,
    dialog: &dyn LoginDialog,
    cancel: &CancellationToken,
) -> Result<String, LoginError> {
    let uri = listener.redirect_uri().to_owned();
    let redirected = listener.redirected(state);
    tokio::pin!(redirected);
    let mut fault = None;
    loop {
        // Withdraws the question when the browser was redirected.
        let question = cancel.child_token();
        let _withdraw = question.clone().drop_guard();
        let (address, is_pasted) = tokio::select! {
            address = &mut redirected => (address, false),
            pasted = dialog.pasted(fault.as_deref(), &question) => match pasted {
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
fn query_value(address: &str, name: &str) -> Option<String> {
    let url = Url::parse(address).ok()?;
    let mut values = url.query_pairs().filter(|(key, _)| key == name);
    let value = values.next()?.1.into_owned();
    (values.next().is_none() && !value.is_empty()).then_some(value)
}
