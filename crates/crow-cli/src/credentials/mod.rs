//! Keys that the user stored: in a file of her own, each bound to the place that it was given for.

mod file;
mod hidden;
#[cfg(feature = "keyring")]
mod keyring;
mod keys;
mod login;

pub(crate) use file::CredentialFile;
pub(crate) use keys::StoredKeys;
pub(crate) use login::{login, logout};
