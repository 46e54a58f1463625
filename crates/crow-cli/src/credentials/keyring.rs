//! The keyring of the system, for those who built the program with it.

use keyring::v1::{Entry, Error};

use super::file::Credential;

/// Under which service keys are kept.
const SERVICE: &str = "crow-agent";

/// Finds a key. The error is a sentence. Blocks.
pub(super) fn find(name: &str) -> Result<Option<Credential>, String> {
    // Where there is no keyring at all, nothing is kept in it.
    let Ok(entry) = entry(name) else { return Ok(None) };
    match entry.get_password() {
        Ok(text) => serde_json::from_str(&text)
            .map(Some)
            .map_err(|_| format!("the keyring's entry {SERVICE}/{name} is not ours")),
        Err(Error::NoEntry) => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}

/// Keeps a key in the place of the one before. Blocks.
pub(super) fn add(name: &str, credential: &Credential) -> Result<(), String> {
    let text = serde_json::to_string(credential).map_err(|error| error.to_string())?;
    entry(name)?.set_password(&text).map_err(|error| failed(&error))
}

/// Forgets a key. Returns whether there was one. Blocks.
pub(super) fn remove(name: &str) -> Result<bool, String> {
    let Ok(entry) = entry(name) else { return Ok(false) };
    match entry.delete_credential() {
        Ok(()) => Ok(true),
        Err(Error::NoEntry) => Ok(false),
        Err(error) => Err(failed(&error)),
    }
}

fn entry(name: &str) -> Result<Entry, String> {
    Entry::new(SERVICE, name).map_err(|error| failed(&error))
}

fn failed(error: &Error) -> String {
    format!("the keyring cannot be used: {error}")
}
