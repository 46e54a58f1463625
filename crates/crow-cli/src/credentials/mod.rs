//! Keys that the user stored: in a file of her own, each bound to the place that it was given for.

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
pub(crate) use login::{forget_the_only, login, logout};
