//! The token of the live view: a new one, or one that is kept in a private file, so that a page that was opened once works
//! after a restart.

use std::{fs::File, io::Read as _};

use crow_runtime::AccessToken;

use crate::{
    environment::ProcessEnvironment,
    error::AppError,
    private_file::{self, Privacy, PrivateFileError},
};

/// Returns a new token, which is stored nowhere.
///
/// # Errors
/// Fails if the system gives no random numbers.
pub fn new_live_view_token() -> Result<AccessToken, AppError> {
    let mut bytes = [0; 32];
    let mut random = || File::open("/dev/urandom")?.read_exact(&mut bytes);
    random().map_err(|error| AppError::failed(format!("no random numbers: {error}")))?;
    Ok(AccessToken::from_random(bytes))
}

/// Returns the stored token of the live view, or stores a new one if there is none. Commands of agents cannot read the
/// file. Blocks.
///
/// # Errors
/// Fails if there is no home directory, or the file is accessible to others, holds no token, or cannot be written.
pub fn kept_live_view_token(environment: &ProcessEnvironment) -> Result<AccessToken, AppError> {
    let path = environment.data_dir()?.join("live-view-token");
    let failed = |error: PrivateFileError| AppError::failed(error.to_string());
    let Some(text) = private_file::read(&path, Privacy::Secret).map_err(failed)? else {
        let token = new_live_view_token()?;
        private_file::replace(&path, token.as_str()).map_err(failed)?;
        return Ok(token);
    };
    AccessToken::new(text.trim()).ok_or_else(|| {
        let message = format!("{} holds no token", path.display());
        AppError::failed(message).hint("remove the file: a new one is made")
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn a_kept_token_is_private_and_stays_the_same() {
        let home = tempfile::tempdir().unwrap();
        let environment = ProcessEnvironment::with([("HOME", home.path().to_str().unwrap())]);
        let first = kept_live_view_token(&environment).unwrap();
        assert!(kept_live_view_token(&environment).unwrap() == first);
        assert!(new_live_view_token().unwrap() != first);
        let path = environment.data_dir().unwrap().join("live-view-token");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "short").unwrap();
        let refused = |environment| kept_live_view_token(environment).unwrap_err().message;
        assert!(refused(&environment).contains("holds no token"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(refused(&environment).contains("other users can read"));
    }
}
