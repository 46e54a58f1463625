//! Login at servers by OAuth 2.1, as the Model Context Protocol specifies it.
//!
//! The library for the protocol discovers the authorization server, registers Crow there and checks its answers (PKCE,
//! issuer, resource). Here are the parts around it: requests through the [`Http`](crow_core::capability::Http) of the
//! process, stored logins, and the dialog with the user.
//!
//! [`log_in`](login::log_in) sends the user to the authorization page and stores the tokens as a [`StoredLogin`] under
//! the URL of the server. [`ServerLogin`] reads them for each request, so a login, logout or renewal by another process
//! counts at once, and renews them before they expire or when the server rejects them. With the grant
//! [`ClientCredentials`](OAuthGrant::ClientCredentials) there is no user: it obtains tokens by itself.

mod client_key;
mod client_login;
mod dialog;
mod discovery;
mod http;
mod login;
mod settings;
mod stored;

pub use client_key::{ClientKey, ClientKeyError};
pub(crate) use dialog::QuestionDialog;
pub use dialog::{AuthorizationPage, LoginAccess, LoginDialog, RedirectListener, UserBrowser};
pub(crate) use login::{LoginChallenge, log_in};
pub use login::{LoginError, LoginOutcome};
pub use settings::{OAuthGrant, OAuthSettings};
pub(crate) use stored::ServerLogin;
pub use stored::{LoginStorage, LoginStorageError};
