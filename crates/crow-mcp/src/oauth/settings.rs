//! Settings of a login.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::client_key::ClientKey;

/// The way to an access token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OAuthGrant {
    /// The user logs in with a browser.
    #[default]
    AuthorizationCode,
    /// Crow logs in as itself, with the secret or key of its registration, whenever a token is needed: for programs without
    /// a user.
    ClientCredentials,
}

/// Settings of the login at a server. All are optional: Crow discovers the authorization server and registers there.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OAuthSettings {
    /// Client id, if the user registered Crow at the authorization server.
    pub client_id: Option<String>,
    /// Secret of that registration.
    pub client_secret: Option<String>,
    /// Private key of that registration, used instead of a secret.
    pub private_key: Option<ClientKey>,
    /// The way to an access token.
    pub grant: OAuthGrant,
    /// HTTPS address of a client metadata document, used as client id where the authorization server accepts such
    /// documents.
    pub client_metadata_url: Option<String>,
    /// Scopes to request; those that the server names if empty.
    pub scopes: Vec<String>,
    /// Port of the redirect on this machine, for registrations with a fixed one; any if absent.
    pub redirect_port: Option<u16>,
    /// The only authorization server to use, by its issuer identifier; the one that the server names if absent.
    pub issuer: Option<String>,
    /// True if a server on the internet may name an authorization server in a private network.
    pub private_network: bool,
}

/// Leaves out the secret and the key.
impl fmt::Debug for OAuthSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthSettings")
            .field("grant", &self.grant)
            .field("client_id", &self.client_id)
            .field("client_metadata_url", &self.client_metadata_url)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}
