//! The keyring of the system, for those who built the program with it.

use keyring::v1::{Entry, Error};

use super::file::Credential;

/// Under which service keys are kept.
const SERVICE: &str = "crow-agent";

/// Finds a key. The error is a sentence. Blocks.
pub(super) fn find(name: &str) -> Result<Option<Credential>, String> {
    // Where there is no keyring at all, nothing is kept in it.
    entry(name).map_or(Ok(None), |entry| read(&entry, name))
}

/// Keeps a key in the place of the one before. Blocks.
pub(super) fn add(name: &str, credential: &Credential) -> Result<(), String> {
    write(&entry(name)?, credential)
}

/// Forgets a key. Returns whether there was one. Blocks.
pub(super) fn remove(name: &str) -> Result<bool, String> {
    entry(name).map_or(Ok(false), |entry| delete(&entry))
}

fn read(entry: &Entry, name: &str) -> Result<Option<Credential>, String> {
    match entry.get_password() {
        Ok(text) => serde_json::from_str(&text)
            .map(Some)
            .map_err(|_| format!("the keyring's entry {SERVICE}/{name} is not ours")),
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
    fn a_key_is_kept_found_and_forgotten_in_a_keyring() {
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
    fn a_keyring_that_fails_is_told_and_what_is_not_ours_is_not_shown() {
        let entry = mocked();
        fails_next(&entry);
        let error = read(&entry, "one").unwrap_err();
        assert!(error.starts_with("the keyring cannot be used: "), "{error}");
        fails_next(&entry);
        assert!(delete(&entry).is_err());
        entry.set_password("very-secret").unwrap();
        let error = read(&entry, "one").unwrap_err();
        assert_eq!(error, "the keyring's entry crow-agent/one is not ours");
    }
}
