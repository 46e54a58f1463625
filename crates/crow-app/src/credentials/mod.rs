//! API keys that the user stored: a private file in which each key is bound to the origin it may be sent to.

mod file;
#[cfg(feature = "keyring")]
mod keyring;

pub use file::{Credential, CredentialFile, MCP_LOGIN, forget};
pub(crate) use file::{StoredKeys, remove_only_key};
#[cfg(feature = "keyring")]
pub use keyring::add as keyring_add;
