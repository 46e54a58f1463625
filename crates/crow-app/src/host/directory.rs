//! Resolving and checking the directories that sessions work in.

use std::path::{Path, PathBuf};

use crow_runtime::HostError;

use crate::{environment::ProcessEnvironment, error::AppError};

/// Resolves the directory of a new session from the command line. It must exist.
pub fn working_directory(
    given: Option<&Path>,
    environment: &ProcessEnvironment,
) -> Result<PathBuf, AppError> {
    let path = match given {
        Some(path) if path.is_absolute() => path.to_path_buf(),
        Some(path) => environment.current_dir()?.join(path),
        None => environment.current_dir()?.to_path_buf(),
    };
    let resolved = path.canonicalize().map_err(|error| {
        AppError::usage(format!("the directory {} cannot be used: {error}", path.display()))
            .hint("give an existing one with --cwd")
    })?;
    if !resolved.is_dir() {
        return Err(AppError::usage(format!("{} is not a directory", path.display()))
            .hint("give an existing one with --cwd"));
    }
    Ok(resolved)
}

/// Resolves a directory that an adapter names. It must be absolute and exist. Blocks.
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

/// Resolves the additional directories of a session. Leaves out duplicates, and those inside `cwd` or inside another
/// one. Refuses the root directory. Blocks.
pub(super) fn additional(cwd: &Path, given: &[PathBuf]) -> Result<Vec<PathBuf>, HostError> {
    let paths = given.iter().map(|path| resolved(path)).collect::<Result<Vec<_>, _>>()?;
    if let Some(path) = paths.iter().find(|path| path.parent().is_none()) {
        return Err(HostError::Refused {
            message: format!(
                "{} is the whole file system, not a working directory",
                path.display()
            ),
            hint: "name specific directories".to_owned(),
        });
    }
    let is_in = |path: &Path, other: &Path| path != other && path.starts_with(other);
    let mut distinct: Vec<PathBuf> = Vec::new();
    for path in &paths {
        let is_known = path.starts_with(cwd) || distinct.contains(path);
        if !is_known && !paths.iter().any(|other| is_in(path, other)) {
            distinct.push(path.clone());
        }
    }
    Ok(distinct)
}

/// Fails if the directory of a stored session is gone: its paths and history refer to it.
pub(super) fn check_directory_exists(cwd: &Path) -> Result<(), HostError> {
    if cwd.is_dir() {
        return Ok(());
    }
    Err(HostError::Refused {
        message: format!("the directory of the session, {}, no longer exists", cwd.display()),
        hint: "restore it, or start a new session".to_owned(),
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
        let count = |names: &[&str]| {
            let given: Vec<_> = names.iter().map(|name| root.join(name)).collect();
            additional(&cwd, &given).map(|paths| paths.len())
        };
        assert_eq!(count(&["beside", "link", "beside/deep", "project/in", "project"]).unwrap(), 1);
        assert!(count(&["absent"]).is_err());
        assert!(additional(&cwd, &["beside".into()]).is_err());
        assert!(additional(&cwd, &["/".into()]).is_err());
    }
}
