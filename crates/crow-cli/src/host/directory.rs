//! Where sessions work.

use std::path::{Path, PathBuf};

use crow_runtime::HostError;

use crate::{CliError, Environment};

/// Resolves the directory that a new session works in. It must exist.
pub(crate) fn working_directory(
    given: Option<&Path>,
    environment: &Environment,
) -> Result<PathBuf, CliError> {
    let path = match given {
        Some(path) if path.is_absolute() => path.to_path_buf(),
        Some(path) => environment.current_dir()?.join(path),
        None => environment.current_dir()?.to_path_buf(),
    };
    let resolved = path.canonicalize().map_err(|error| {
        CliError::usage(format!("the directory {} cannot be used: {error}", path.display()))
            .hint("give an existing one with --cwd")
    })?;
    if !resolved.is_dir() {
        return Err(CliError::usage(format!("{} is not a directory", path.display()))
            .hint("give an existing one with --cwd"));
    }
    Ok(resolved)
}

/// A session goes on where it began: its paths and its history belong there.
pub(super) fn still_there(cwd: &Path) -> Result<(), HostError> {
    if cwd.is_dir() {
        return Ok(());
    }
    Err(HostError::Refused {
        message: format!("the directory of the session, {}, is not there any more", cwd.display()),
        hint: "put it back, or start a new session".to_owned(),
    })
}
