//! The token of the live view, kept in a private file so that a page that was opened once works after a restart.

use std::{fs::File, io::Read as _, path::PathBuf};

use crow_core::access::AccessToken;

use crate::{
    environment::ProcessEnvironment,
    error::AppError,
    private_file::{self, Privacy},
};

/// Random bytes of a token.
const BYTES: usize = 32;

/// The file with the token of the live view. Commands of agents cannot read it.
#[derive(Debug)]
pub struct LiveViewToken {
    path: PathBuf,
}

impl LiveViewToken {
    /// Creates the token's place in the data directory.
    ///
    /// # Errors
    /// Fails if there is no home directory.
    pub fn of_user(environment: &ProcessEnvironment) -> Result<Self, AppError> {
        Ok(Self { path: environment.data_dir()?.join("live-view-token") })
    }

    /// Returns the stored token, or stores a new one if there is none. Blocks.
    ///
    /// # Errors
    /// Fails if the file is accessible to others, holds no token, or cannot be written.
    pub fn load(&self) -> Result<AccessToken, AppError> {
        let stored = private_file::read(&self.path, Privacy::Secret);
        let Some(text) = stored.map_err(|error| AppError::failed(error.to_string()))? else {
            return self.renew();
        };
        AccessToken::new(text.trim()).ok_or_else(|| {
            let message = format!("{} holds no token", self.path.display());
            AppError::failed(message).hint("--new-token makes a new one")
        })
    }

    /// Stores a new token: pages that were opened with the old one have no access any more. Blocks.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn renew(&self) -> Result<AccessToken, AppError> {
        let mut bytes = [0; BYTES];
        let mut random = || File::open("/dev/urandom")?.read_exact(&mut bytes);
        random().map_err(|error| AppError::failed(format!("no random numbers: {error}")))?;
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        private_file::replace(&self.path, &text)
            .map_err(|error| AppError::failed(error.to_string()))?;
        Ok(AccessToken::new(text).expect("invariant: 64 hexadecimal digits are a token"))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn a_token_is_kept_privately_until_it_is_renewed() {
        let home = tempfile::tempdir().unwrap();
        let environment = ProcessEnvironment::with([("HOME", home.path().to_str().unwrap())]);
        let token = LiveViewToken::of_user(&environment).unwrap();
        let first = token.load().unwrap();
        assert_eq!(token.load().unwrap(), first);
        assert_eq!(fs::metadata(&token.path).unwrap().permissions().mode() & 0o777, 0o600);
        let second = token.renew().unwrap();
        assert!(second != first && token.load().unwrap() == second);
        fs::write(&token.path, "short").unwrap();
        assert!(token.load().unwrap_err().message.contains("holds no token"));
        fs::set_permissions(&token.path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(token.load().unwrap_err().message.contains("other users can read"));
    }
}
