//! Removing stored keys.

use super::CredentialFile;
use crate::error::AppError;

/// Removes the stored key if there is exactly one, and returns its name. Fails otherwise. Blocks.
pub(crate) fn remove_only_key(file: &CredentialFile) -> Result<String, AppError> {
    let stored = file.load()?;
    let names: Vec<_> = stored.keys().map(String::as_str).collect();
    let [name] = names.as_slice() else {
        let hint = match names.as_slice() {
            [] => "keys in variables and in provider files must be removed by hand".to_owned(),
            names => format!("crow-agent logout PROVIDER, with one of {}", names.join(", ")),
        };
        let message = if names.is_empty() { "no key is stored" } else { "several keys are stored" };
        return Err(AppError::usage(message).hint(hint));
    };
    forget(file, name)?;
    Ok((*name).to_owned())
}

/// Removes a key from the file and the keyring. Returns true if there was one.
pub fn forget(file: &CredentialFile, name: &str) -> Result<bool, AppError> {
    let was_in_file = file.remove(name)?;
    #[cfg(feature = "keyring")]
    let was_in_keyring = super::keyring::remove(name).map_err(AppError::failed)?;
    #[cfg(not(feature = "keyring"))]
    let was_in_keyring = false;
    Ok(was_in_file || was_in_keyring)
}
