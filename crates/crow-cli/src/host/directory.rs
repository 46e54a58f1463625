//! Where sessions work.

use std::path::{Path, PathBuf};

use crow_runtime::HostError;

use crate::{environment::Environment, error::CliError};

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

/// Resolves the directory that a session is made in, as an adapter names it. Blocks.
pub(super) fn resolved(path: &Path) -> Result<PathBuf, HostError> {
    let refused = |message: String| HostError::Refused { message, hint: String::new() };
    let shown = path.display();
    if !path.is_absolute() {
        return Err(refused(format!("the directory {shown} is not absolute")));
    }
    let resolved = path
        .canonicalize()
        .map_err(|error| refused(format!("the directory {shown} cannot be used: {error}")))?;
    if !resolved.is_dir() {
        return Err(refused(format!("{shown} is not a directory")));
    }
    Ok(resolved)
}

/// Resolves the directories beside `cwd` in which an agent is to work as well, each once. What lies in another one of them
/// is in it already. Blocks.
pub(super) fn additional(cwd: &Path, given: &[PathBuf]) -> Result<Vec<PathBuf>, HostError> {
    let found = given.iter().map(|path| resolved(path)).collect::<Result<Vec<_>, _>>()?;
    if let Some(path) = found.iter().find(|path| path.parent().is_none()) {
        return Err(HostError::Refused {
            message: format!("{} is everything, and no directory to work in", path.display()),
            hint: "name the directories that are meant".to_owned(),
        });
    }
    let is_in = |path: &Path, other: &Path| path != other && path.starts_with(other);
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in &found {
        let is_known = path.starts_with(cwd) || kept.contains(path);
        if !is_known && !found.iter().any(|other| is_in(path, other)) {
            kept.push(path.clone());
        }
    }
    Ok(kept)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additional_directories_are_absolute_exist_and_are_named_once() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["project/in", "beside/deep"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("beside"), root.join("link")).unwrap();
        let cwd = root.join("project");
        let of = |names: &[&str]| {
            let given: Vec<_> = names.iter().map(|name| root.join(name)).collect();
            additional(&cwd, &given).map(|kept| kept.len())
        };
        assert_eq!(of(&["beside", "link", "beside/deep", "project/in", "project"]).unwrap(), 1);
        assert!(of(&["absent"]).is_err());
        assert!(additional(&cwd, &["beside".into()]).is_err());
        assert!(additional(&cwd, &["/".into()]).is_err());
    }
}
