//! The keyring of the system; only with the feature `keyring`.

use keyring::v1::{Entry, Error};

use super::file::Credential;

/// Service name of the entries.
const SERVICE: &str = "crow-agent";

/// Looks up a key. The error is a message for the user. Blocks.
pub(crate) fn find(name: &str) -> Result<Option<Credential>, String> {
    // Without a keyring on this system there is no key: not an error.
    entry(name).map_or(Ok(None), |entry| read(&entry, name))
}

/// Stores a key, replacing one of the same name. Blocks.
pub fn add(name: &str, credential: &Credential) -> Result<(), String> {
    write(&entry(name)?, credential)
}

/// Removes a key. Returns true if there was one. Blocks.
pub(crate) fn remove(name: &str) -> Result<bool, String> {
    entry(name).map_or(Ok(false), |entry| delete(&entry))
}

fn read(entry: &Entry, name: &str) -> Result<Option<Credential>, String> {
    match entry.get_password() {
        Ok(text) => serde_json::from_str(&text)
            .map(Some)
            .map_err(|_| format!("the keyring's entry {SERVICE}/{name} is invalid")),
        Err(Error::NoEntry) => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}

fn write(entry: &Entry, credential: &Credential) -> Result<(), String> {
    let text = serde_json::to_string(credential).map_err(|error| error.to_string())?;
    entry.set_password(&text).map_err(|error| failed(&error))
}

fn delete(entry: &Entry) -> Result<bool, String> {
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

#[cfg(test)]
mod tests {
    use keyring_core::{api::CredentialStoreApi as _, mock};

    use super::*;

    fn mocked() -> Entry {
        let store = mock::Store::new().unwrap();
        Entry { inner: store.build(SERVICE, "one", None).unwrap() }
    }

    fn fails_next(entry: &Entry) {
        let cred: &mock::Cred = entry.inner.as_any().downcast_ref().unwrap();
        cred.set_error(Error::Invalid("session".to_owned(), "it is locked".to_owned()));
    }

    #[test]
    fn a_key_is_stored_found_and_removed_in_a_keyring() {
        let entry = mocked();
        let credential = |key: &str| Credential {
            origin: "https://api.example.com".to_owned(),
            key: key.to_owned(),
        };
        assert_eq!((read(&entry, "one"), delete(&entry)), (Ok(None), Ok(false)));
        write(&entry, &credential("sk-1")).unwrap();
        write(&entry, &credential("sk-2")).unwrap();
        assert_eq!(read(&entry, "one"), Ok(Some(credential("sk-2"))));
        assert_eq!((delete(&entry), read(&entry, "one")), (Ok(true), Ok(None)));
    }

    #[test]
    fn a_failing_keyring_is_reported_and_a_foreign_entry_is_not_shown() {
        let entry = mocked();
        fails_next(&entry);
        let error = read(&entry, "one").unwrap_err();
        assert!(error.starts_with("the keyring cannot be used: "), "{error}");
        fails_next(&entry);
        assert!(delete(&entry).is_err());
        entry.set_password("very-secret").unwrap();
        let error = read(&entry, "one").unwrap_err();
        assert_eq!(error, "the keyring's entry crow-agent/one is invalid");
    }
}
