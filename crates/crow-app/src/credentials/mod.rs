//! API keys that the user stored: a private file in which each key is bound to the origin it may be sent to.

mod file;
#[cfg(feature = "keyring")]
mod keyring;
mod keys;
mod removal;

pub use file::{Credential, CredentialFile};
#[cfg(feature = "keyring")]
pub use keyring::add as keyring_add;
pub(crate) use keys::StoredKeys;
pub use removal::forget;
pub(crate) use removal::remove_only_key;
