//! Paths that a model gives: resolved once for the permission, checked again before the tool acts.

use std::{
    ffi::OsString,
    fs, io,
    path::{Component, Path, PathBuf},
};

use crow_core::{
    tool::{Access, CallPlan, Effects, PathEffect, Subject, ToolContext, ToolError},
    workspace::Workspace,
};

use crate::blocking::blocking_until_cancelled;

/// How many symbolic links to nowhere are followed before it counts as a loop.
const MAX_LINKS: usize = 40;
/// How long a path may be, as the systems have it.
const MAX_BYTES: usize = 4096;
/// How many characters of a path an error shows.
const SHOWN_CHARS: usize = 200;

/// What is wrong with a path, in words that say what to do.
const REASONS: [(io::ErrorKind, &str); 7] = [
    (io::ErrorKind::NotFound, "does not exist"),
    (io::ErrorKind::NotADirectory, "lies below something that is a file, not a folder"),
    (io::ErrorKind::PermissionDenied, "may not be accessed: permission denied"),
    (io::ErrorKind::InvalidFilename, "cannot be used: the path or a name in it is too long"),
    (io::ErrorKind::StorageFull, "cannot be written: the disk is full; free some space first"),
    (
        io::ErrorKind::QuotaExceeded,
        "cannot be written: the disk quota is used up; free some space first",
    ),
    (io::ErrorKind::ReadOnlyFilesystem, "cannot be written: its file system is read-only"),
];

/// The path of the working directory, for tools that work there if no path is given.
pub(crate) fn here() -> String {
    ".".to_owned()
}

/// Plans a call that touches one path. The title is `verb` and the path; where that is another one than the model wrote,
/// because a link or `..` leads there, both.
pub(crate) async fn plan(
    verb: &str,
    given: &str,
    access: Access,
    ctx: &ToolContext,
) -> Result<CallPlan, ToolError> {
    let path = resolve(given, ctx).await?;
    Ok(CallPlan {
        title: format!("{verb} {}", both(given, &path, ctx)),
        effects: Effects::Paths(vec![PathEffect { path: path.clone(), access }]),
        subject: Subject::Path(path),
    })
}

/// Writes where a path leads, behind what was written if that looks like another place. The user who allows the call sees
/// both.
fn both(given: &str, path: &Path, ctx: &ToolContext) -> String {
    let target = shown(path, ctx);
    let goes_up = Path::new(given).components().any(|part| part == Component::ParentDir);
    if ctx.workspace.resolve(given) == path && !goes_up {
        return target;
    }
    format!("{} -> {target}", shorten(given))
}

/// Resolves the path again and makes sure that it is the one that was planned: permission was given for that one.
pub(crate) async fn planned(
    given: &str,
    plan: &CallPlan,
    ctx: &ToolContext,
) -> Result<PathBuf, ToolError> {
    let path = resolve(given, ctx).await?;
    match &plan.effects {
        Effects::Paths(paths) if paths.iter().any(|effect| effect.path == path) => Ok(path),
        Effects::Paths(_) | Effects::None | Effects::Unknown | Effects::UserCommands => {
            Err(ToolError::Model(format!(
                "{} leads to another place than when the call was allowed, so nothing was done; make the call again",
                shorten(given)
            )))
        }
    }
}

/// Makes a given path absolute and resolves its symbolic links as far as it exists.
pub(crate) async fn resolve(given: &str, ctx: &ToolContext) -> Result<PathBuf, ToolError> {
    let (given, workspace) = (given.to_owned(), ctx.workspace.clone());
    let work = move || resolve_now(&given, &workspace);
    blocking_until_cancelled(ctx, work).await?.map_err(ToolError::Model)
}

fn resolve_now(given: &str, workspace: &Workspace) -> Result<PathBuf, String> {
    if given.is_empty() {
        return Err("the path is empty; give the path of a file or folder".to_owned());
    }
    if given.contains('\0') {
        return Err(format!("{} is not a path: it contains a NUL character", shorten(given)));
    }
    if given.len() > MAX_BYTES {
        return Err(explain(given, &io::ErrorKind::InvalidFilename.into()));
    }
    let absolute = workspace.resolve(given);
    if is_home(given) && !absolute.exists() {
        return Err(format!("{}: `~` is not expanded; give an absolute path", shorten(given)));
    }
    follow(&absolute, workspace).map_err(|error| explain(given, &error))
}

fn is_home(given: &str) -> bool {
    given.strip_prefix('~').is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Resolves what exists of `path`; a link to nowhere is followed too, because a write would create its target.
fn follow(path: &Path, workspace: &Workspace) -> io::Result<PathBuf> {
    let mut current = path.to_owned();
    let mut missing: Vec<OsString> = Vec::new();
    let mut links = 0;
    loop {
        match fs::canonicalize(&current) {
            Ok(real) => return Ok(missing.iter().rev().fold(real, |path, name| path.join(name))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Ok(target) = fs::read_link(&current) {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(error);
                    }
                    let parent = current.parent().map(fs::canonicalize).transpose()?;
                    current = workspace.resolve(parent.unwrap_or_default().join(target));
                } else {
                    let Some(name) = current.file_name() else { return Err(error) };
                    missing.push(name.to_owned());
                    current.pop();
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Says what is wrong with a path, and what to do where that is known.
pub(crate) fn explain(given: &str, error: &io::Error) -> String {
    let known = REASONS.iter().find(|(kind, _)| *kind == error.kind());
    let reason = known
        .map_or_else(|| format!("cannot be accessed: {error}"), |(_, reason)| (*reason).to_owned());
    format!("{} {reason}", shorten(given))
}

/// Writes a path for the model: relative inside the working directory, control characters escaped, never endless.
pub(crate) fn shown(path: &Path, ctx: &ToolContext) -> String {
    escape(&ctx.workspace.display(path))
}

/// Escapes control characters, so that a file name cannot pretend to be another line.
pub(crate) fn escape(name: &str) -> String {
    if !name.contains(char::is_control) {
        return name.to_owned();
    }
    let escaped = |char: char| {
        if char.is_control() { char.escape_debug().to_string() } else { char.to_string() }
    };
    name.chars().map(escaped).collect()
}

/// Cuts a path that is too long to be shown.
fn shorten(given: &str) -> String {
    let mut text: String = escape(given).chars().take(SHOWN_CHARS).collect();
    if text.len() < given.len() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_is_wrong_with_the_path() {
        for (kind, text) in [
            (
                io::ErrorKind::StorageFull,
                "a.txt cannot be written: the disk is full; free some space first",
            ),
            (
                io::ErrorKind::ReadOnlyFilesystem,
                "a.txt cannot be written: its file system is read-only",
            ),
            (io::ErrorKind::PermissionDenied, "a.txt may not be accessed: permission denied"),
            (io::ErrorKind::TimedOut, "a.txt cannot be accessed: timed out"),
        ] {
            assert_eq!(explain("a.txt", &kind.into()), text);
        }
    }

    #[test]
    fn a_shown_path_is_one_short_line() {
        assert_eq!(escape("a\nb\u{1b}[0m"), "a\\nb\\u{1b}[0m");
        assert_eq!(shorten(&"ä".repeat(500)).chars().count(), 201);
    }

    #[test]
    fn links_to_nowhere_are_followed_and_loops_end() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let workspace = Workspace::new(root.clone());
        fs::create_dir(root.join("d")).unwrap();
        for (link, target) in [("d/one", "../two"), ("two", "d/none/deep"), ("loop", "loop")] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        let resolved = |given: &str| resolve_now(given, &workspace);
        assert_eq!(resolved("d/one").unwrap(), root.join("d/none/deep"));
        assert_eq!(resolved("d/one/more").unwrap(), root.join("d/none/deep/more"));
        assert_eq!(resolved("d/../new/x").unwrap(), root.join("new/x"));
        assert!(resolved("loop/x").is_err());
    }
}
