//! Paths that a model gives: resolved once for the permission, checked again before the tool acts, with suggestions for
//! one that does not exist.
//!
//! Permission is given for the path to which links resolve when the call is planned. When the call runs, the path is
//! resolved again and must be the same. The file is then opened without following links, so that a later change is
//! detected, too.

use std::{
    ffi::OsString,
    fs, io,
    ops::Deref,
    path::{Component, Path, PathBuf},
};

use crow_core::{
    tool::{Access, CallPlan, Effects, PathEffect, PlannedFile, Subject, ToolContext, ToolError},
    workspace::Workspace,
};
use crow_fs::{Directory, FileIdentity};
use rustix::io::Errno;
use strsim::normalized_damerau_levenshtein;

use crate::blocking::blocking_until_cancelled;

/// Most dangling symbolic links that are followed before they count as a loop.
const MAX_LINKS: usize = 40;
/// Longest path in bytes, which is the limit of the systems.
const MAX_BYTES: usize = 4096;
/// Most characters of a path that an error shows.
const SHOWN_CHARS: usize = 200;
/// Reason for a path that leads elsewhere than before.
const MOVED: &str = "leads to another place than when the call was allowed, so nothing was done; make the call again";

/// Reasons by kind of error, with advice.
const REASONS: [(io::ErrorKind, &str); 7] = [
    (io::ErrorKind::NotFound, "does not exist"),
    (io::ErrorKind::NotADirectory, "is below a file, not a folder"),
    (io::ErrorKind::PermissionDenied, "may not be accessed: permission denied"),
    (io::ErrorKind::InvalidFilename, "cannot be used: the path or a name in it is too long"),
    (io::ErrorKind::StorageFull, "cannot be written: the disk is full; free some space first"),
    (
        io::ErrorKind::QuotaExceeded,
        "cannot be written: the disk quota is used up; free some space first",
    ),
    (io::ErrorKind::ReadOnlyFilesystem, "cannot be written: its file system is read-only"),
];

/// A resolved path that a call may use, and the file that was there when the call was planned.
///
/// Files are opened through `crow_fs`, which follows no link: one that appeared since the path was resolved is an
/// error. Outside of the workspace the identity of the file is compared as well, because there the user allowed this
/// one file.
#[derive(Debug, Clone)]
pub(crate) struct AllowedPath {
    path: PathBuf,
    planned: PlannedFile,
}

impl AllowedPath {
    #[cfg(test)]
    pub(crate) fn any(path: &Path) -> Self {
        Self { path: path.to_owned(), planned: PlannedFile::Any }
    }

    /// Returns true if an opened file is the one that was planned.
    pub(crate) fn is_planned(&self, found: FileIdentity) -> bool {
        match self.planned {
            PlannedFile::Any => true,
            PlannedFile::Existing { device, inode } => found == FileIdentity { device, inode },
            PlannedFile::Missing { .. } => false,
        }
    }

    /// Fails if an opened file is not the one that was planned.
    pub(crate) fn check(&self, found: FileIdentity) -> io::Result<()> {
        if self.is_planned(found) { Ok(()) } else { Err(Self::moved_error()) }
    }

    /// Fails if the path is now missing but was not when it was planned, or was missing in another folder.
    pub(crate) fn check_missing(&self) -> io::Result<()> {
        match &self.planned {
            PlannedFile::Any => Ok(()),
            PlannedFile::Existing { .. } => Err(Self::moved_error()),
            PlannedFile::Missing { folder, device, inode } => {
                let expected = FileIdentity { device: *device, inode: *inode };
                let found = Directory::open(folder)?.identity()?;
                if found == expected { Ok(()) } else { Err(Self::moved_error()) }
            }
        }
    }

    /// Returns the error of a path that leads elsewhere, the same as for a link on the way. [`explain`] gives its
    /// meaning.
    pub(crate) fn moved_error() -> io::Error {
        Errno::LOOP.into()
    }
}

impl Deref for AllowedPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<Path> for AllowedPath {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

/// Opens the folder that a call may use. Fails if it is not the one that was planned.
pub(crate) fn open_folder(path: &AllowedPath) -> io::Result<Directory> {
    let opened = Directory::open(path);
    match &opened {
        Ok(folder) => path.check(folder.identity()?)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.check_missing()?,
        Err(_) => {}
    }
    opened
}

/// Returns the path of the working directory, for tools that work there if no path is given.
pub(crate) fn here() -> String {
    ".".to_owned()
}

/// Plans a call that touches one path. The title has `verb` and the path; if a link or `..` leads elsewhere, both the
/// path that the model wrote and its target.
pub(crate) async fn plan(
    verb: &str,
    given: &str,
    access: Access,
    ctx: &ToolContext,
) -> Result<CallPlan, ToolError> {
    let effect = path_effect(given, access, ctx).await?;
    let path = effect.path.clone();
    let title = format!("{verb} {}", path_and_target(given, &path, ctx));
    Ok(CallPlan { title, effects: Effects::Paths(vec![effect]), subject: Subject::Path(path) })
}

/// Plans that a call touches a path, for calls that touch several.
pub(crate) async fn path_effect(
    given: &str,
    access: Access,
    ctx: &ToolContext,
) -> Result<PathEffect, ToolError> {
    let path = destination(given, ctx).await?;
    let planned = if ctx.workspace.contains(&path) {
        PlannedFile::Any
    } else {
        let path = path.clone();
        blocking_until_cancelled(ctx, move || identify(&path)).await?
    };
    Ok(PathEffect { path, access, planned })
}

/// Returns the identity of the file at a resolved path. If it cannot be determined, returns one that no file has: the
/// reason would tell of a place for which there is no permission yet, so it is reported when the call runs.
fn identify(path: &Path) -> PlannedFile {
    const NO_FILE: PlannedFile = PlannedFile::Existing { device: 0, inode: 0 };
    match crow_fs::metadata(path) {
        Ok(found) => {
            let FileIdentity { device, inode } = found.identity;
            return PlannedFile::Existing { device, inode };
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(_) => return NO_FILE,
    }
    let nearest = Directory::open_nearest(path).and_then(|(nearest, missing)| {
        let folder = path.ancestors().nth(missing.len()).unwrap_or(path).to_owned();
        let FileIdentity { device, inode } = nearest.identity()?;
        Ok(PlannedFile::Missing { folder, device, inode })
    });
    nearest.unwrap_or(NO_FILE)
}

/// Writes the target of a path, after the path as given if that looks like another place. The user who allows the
/// call sees both.
pub(crate) fn path_and_target(given: &str, path: &Path, ctx: &ToolContext) -> String {
    let target = display_path(path, ctx);
    let goes_up = Path::new(given).components().any(|part| part == Component::ParentDir);
    if ctx.workspace.resolve(given) == path && !goes_up {
        return target;
    }
    format!("{} -> {target}", shorten(given))
}

/// Resolves the path again and makes sure that it is the planned one, for which permission was given.
pub(crate) async fn resolve_planned(
    given: &str,
    plan: &CallPlan,
    ctx: &ToolContext,
) -> Result<AllowedPath, ToolError> {
    let path = resolve(given, ctx).await?;
    let effects = match &plan.effects {
        Effects::Paths(paths) => paths.as_slice(),
        Effects::None | Effects::Unknown | Effects::UserCommands => &[],
    };
    match effects.iter().find(|effect| effect.path == path) {
        Some(effect) => Ok(AllowedPath { path, planned: effect.planned.clone() }),
        None => Err(ToolError::Model(explain(given, &AllowedPath::moved_error()))),
    }
}

/// Resolves the path of a call that is being planned. An error of a path in the workspace is reported at once; that
/// of another path would tell of files for which there is no permission yet, so it is reported when the call runs.
async fn destination(given: &str, ctx: &ToolContext) -> Result<PathBuf, ToolError> {
    let (given, workspace) = (given.to_owned(), ctx.workspace.clone());
    let work = move || planned_path(&given, &workspace);
    blocking_until_cancelled(ctx, work).await?.map_err(ToolError::Model)
}

/// Returns the path on which permission for a call of a file tool is decided, as the tools plan it. Blocks.
///
/// Fails with the error of the path, as far as the model may know it before the call is allowed.
pub fn planned_path(given: &str, workspace: &Workspace) -> Result<PathBuf, String> {
    let absolute = to_absolute(given, workspace)?;
    match follow(&absolute, workspace) {
        (path, Some(error)) if workspace.contains(&path) => Err(explain_unresolved(given, &error)),
        (path, _) => Ok(path),
    }
}

/// Makes a given path absolute and resolves its symbolic links as far as it exists.
pub(crate) async fn resolve(given: &str, ctx: &ToolContext) -> Result<PathBuf, ToolError> {
    let (given, workspace) = (given.to_owned(), ctx.workspace.clone());
    let work = move || resolve_now(&given, &workspace);
    blocking_until_cancelled(ctx, work).await?.map_err(ToolError::Model)
}

fn resolve_now(given: &str, workspace: &Workspace) -> Result<PathBuf, String> {
    match follow(&to_absolute(given, workspace)?, workspace) {
        (path, None) => Ok(path),
        (_, Some(error)) => Err(explain_unresolved(given, &error)),
    }
}

/// Explains why a path cannot be resolved.
fn explain_unresolved(given: &str, error: &io::Error) -> String {
    if crow_fs::is_link_error(error) {
        return format!("{} cannot be accessed: its links form a loop", shorten(given));
    }
    explain(given, error)
}

/// Checks the form of a path and makes it absolute.
fn to_absolute(given: &str, workspace: &Workspace) -> Result<PathBuf, String> {
    if given.is_empty() {
        return Err("the path is empty; give the path of a file or folder".to_owned());
    }
    if given.contains('\0') {
        return Err(format!("{} is not a path: it contains a NUL character", shorten(given)));
    }
    if given.len() > MAX_BYTES {
        return Err(explain(given, &io::ErrorKind::InvalidFilename.into()));
    }
    // The existence of a folder `~` tells nothing of what it may lead to.
    if is_home(given) && fs::symlink_metadata(workspace.resolve("~")).is_err() {
        return Err(format!("{}: `~` is not expanded; give an absolute path", shorten(given)));
    }
    Ok(workspace.resolve(given))
}

fn is_home(given: &str) -> bool {
    given.strip_prefix('~').is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Resolves the existing part of `path`. A dangling link is followed, too, because a write would create its target.
/// If the way is blocked, the rest of the path stays as it is written, and the error is returned as well.
fn follow(path: &Path, workspace: &Workspace) -> (PathBuf, Option<io::Error>) {
    let mut current = path.to_owned();
    let mut missing: Vec<OsString> = Vec::new();
    let mut links = 0;
    let mut obstacle = None;
    loop {
        let error = match fs::canonicalize(&current) {
            Ok(real) => {
                let resolved = missing.iter().rev().fold(real, |path, name| path.join(name));
                return (resolved, obstacle);
            }
            Err(error) => error,
        };
        // A dangling link: continue with its target.
        let target =
            fs::read_link(&current).ok().filter(|_| error.kind() == io::ErrorKind::NotFound);
        if let Some(target) = target
            && let Some(Ok(parent)) = current.parent().map(fs::canonicalize)
            && links < MAX_LINKS
        {
            links += 1;
            current = workspace.resolve(parent.join(target));
            continue;
        }
        if error.kind() != io::ErrorKind::NotFound || links == MAX_LINKS {
            obstacle.get_or_insert(error);
        }
        // Otherwise put the last name aside and continue with the parent.
        let Some(name) = current.file_name() else {
            return (path.to_owned(), obstacle.or(Some(io::ErrorKind::NotFound.into())));
        };
        missing.push(name.to_owned());
        current.pop();
    }
}

/// Describes an error of a path, with advice if there is any.
pub(crate) fn explain(given: &str, error: &io::Error) -> String {
    if crow_fs::is_link_error(error) {
        return format!("{} {MOVED}", shorten(given));
    }
    let known = REASONS.iter().find(|(kind, _)| *kind == error.kind());
    let reason = known
        .map_or_else(|| format!("cannot be accessed: {error}"), |(_, reason)| (*reason).to_owned());
    format!("{} {reason}", shorten(given))
}

/// Writes a path for the model: relative inside the working directory, with control characters escaped.
pub(crate) fn display_path(path: &Path, ctx: &ToolContext) -> String {
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

/// Most names that are suggested.
const SUGGESTIONS: usize = 3;
/// Most names of a folder that are compared.
const MAX_LOOKED_AT: usize = 5000;
/// Lowest similarity of names that are suggested.
const ALIKE: f64 = 0.5;

/// Describes a missing file, with files of similar names.
pub(crate) fn missing_file_message(path: &Path, ctx: &ToolContext) -> String {
    let name = display_path(path, ctx);
    // Outside of the workspace, permission was given for this path and not for the names beside it.
    let similar = if ctx.workspace.contains(path) { similar_names(path) } else { Vec::new() };
    let similar: Vec<String> = similar.iter().map(|path| display_path(path, ctx)).collect();
    match path.parent() {
        _ if !similar.is_empty() => {
            format!("{name} does not exist; did you mean {}?", similar.join(", "))
        }
        Some(folder) if Directory::open(folder).is_err() => {
            format!("{name} does not exist, nor does its folder; find it with glob")
        }
        _ => format!("{name} does not exist; find it with glob or list_directory"),
    }
}

/// Returns the paths of up to three files with a similar name in the folder where `path` should be.
fn similar_names(path: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let entries = Directory::open(folder).and_then(|directory| directory.entries(MAX_LOOKED_AT));
    let Ok(entries) = entries else { return Vec::new() };
    let target = name.to_string_lossy().to_lowercase();
    let stem = stem(&target);
    let mut alike: Vec<(f64, PathBuf)> = entries
        .into_iter()
        .filter_map(|(entry, _)| {
            let name = entry.as_os_str().to_string_lossy().to_lowercase();
            let same_stem = if self::stem(&name) == stem { 1.0 } else { 0.0 };
            let score = normalized_damerau_levenshtein(&target, &name).max(same_stem);
            (score >= ALIKE).then(|| (score, folder.join(entry.as_os_str())))
        })
        .collect();
    alike.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    alike.into_iter().take(SUGGESTIONS).map(|(_, path)| path).collect()
}

fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

#[cfg(test)]
mod tests {
    use std::fs;

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

    #[test]
    fn the_nearest_names_come_first() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["main.rs", "Main.java", "mian.rs", "other.txt", "maine.rs"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let names: Vec<_> = similar_names(&folder.path().canonicalize().unwrap().join("main.ts"))
            .iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["Main.java", "main.rs", "maine.rs"]);
    }
}
