//! API keys that the user stored: a private file in which each key is bound to the origin it may be sent to.

mod file;
mod hidden;
#[cfg(feature = "keyring")]
mod keyring;
mod keys;
mod login;

#[cfg(test)]
pub(crate) use file::Credential;
pub(crate) use file::CredentialFile;
pub(crate) use keys::StoredKeys;
pub(crate) use login::{login, logout, remove_only_key};
