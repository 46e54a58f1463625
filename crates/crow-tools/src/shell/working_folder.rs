//! The folder in which a command ends, which is carried over to the next command of the session.
//!
//! A shell that may change its folder writes it to a file when it exits. If it cannot (it was killed, `exec` replaced
//! it, the command has an EXIT trap of its own), the folder stays as it was.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crow_core::{
    tool::{CommandLine, ToolContext, ToolError},
    workspace::ShellFolder,
};

use crate::{
    blocking::blocking_until_cancelled,
    paths::{self, display_path, explain},
};

/// Script that runs its first argument and writes the folder in which that ends to the file that is its second
/// argument. The command is run by `eval`, so that its lines keep their numbers.
const KEEPER: &str = "__crow_command=$1 __crow_folder=$2; shift 2; \
     trap '{ command pwd -P >|\"$__crow_folder\"; } 2>/dev/null || :' EXIT; eval \"$__crow_command\"";

/// The folder in which a command starts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StartFolder {
    pub folder: PathBuf,
    /// The folder in which it would have started, if that still existed.
    pub missing: Option<PathBuf>,
}

impl StartFolder {
    /// Finds the folder in which a command starts: the given one, or else the one in which the last command ended.
    pub(super) async fn find(given: Option<&str>, ctx: &ToolContext) -> Result<Self, ToolError> {
        let Some(given) = given else { return Self::carried(ctx).await };
        let path = paths::resolve(given, ctx).await?;
        let name = display_path(&path, ctx);
        let work = move || match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => Ok(Self { folder: path, missing: None }),
            Ok(_) => Err(ToolError::Model(format!("workdir {name} is not a folder"))),
            Err(error) => Err(ToolError::Model(explain(&format!("workdir {name}"), &error))),
        };
        blocking_until_cancelled(ctx, work).await?
    }

    /// Returns the folder in which the last command ended, if it still exists in the workspace, or else the working
    /// directory.
    async fn carried(ctx: &ToolContext) -> Result<Self, ToolError> {
        let cwd = ctx.workspace.cwd().to_owned();
        let Some(carried) = ctx.resources.get::<ShellFolder>() else {
            return Ok(Self { folder: cwd, missing: None });
        };
        let workspace = ctx.workspace.clone();
        let work = move || {
            // A link may have replaced it.
            let is_same = fs::canonicalize(&carried.0).is_ok_and(|path| path == carried.0);
            if is_same && carried.0.is_dir() && workspace.contains(&carried.0) {
                Self { folder: carried.0.clone(), missing: None }
            } else {
                Self { folder: cwd, missing: Some(carried.0.clone()) }
            }
        };
        blocking_until_cancelled(ctx, work).await
    }
}

/// Most bytes that a shell writes: a path and a line end.
const MAX_WRITTEN: u64 = 8 * 1024;

/// The file to which a command's shell writes the folder in which it ends.
#[derive(Debug)]
pub(super) struct CwdFile {
    file: PathBuf,
    /// The same path with its folder resolved. Commands can write to this folder, too: a link or pipe that they put
    /// in place of the file is neither followed nor waited for.
    resolved: PathBuf,
}

impl CwdFile {
    /// Prepares the file for a command that may change the folder. Returns `None` if the command cannot, or if there
    /// is no file to write to.
    pub(super) async fn new(
        line: &CommandLine,
        file: Option<PathBuf>,
        ctx: &ToolContext,
    ) -> Option<Self> {
        let file = file.filter(|_| line.may_change_folder())?;
        let (folder, name) = (file.parent()?.to_owned(), file.file_name()?.to_owned());
        let work = move || {
            fs::create_dir_all(&folder)?;
            let resolved = fs::canonicalize(folder)?.join(name);
            // An earlier call may have had the same id and have been interrupted before its file was read.
            match crow_fs::remove_file(&resolved) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                Ok(()) | Err(_) => Ok(Self { file, resolved }),
            }
        };
        blocking_until_cancelled(ctx, work).await.ok()?.ok()
    }

    /// Returns the arguments of a shell that runs the command and writes the folder in which it ends.
    pub(super) fn arguments(&self, shell: &str, command: &str) -> Option<Vec<String>> {
        let file = self.file.to_str()?;
        Some([shell, "-c", KEEPER, shell, command, file].map(str::to_owned).to_vec())
    }

    /// Returns the folder in which the command ended, if it is known and still exists.
    pub(super) async fn read(self, ctx: &ToolContext) -> Option<PathBuf> {
        let work = move || -> io::Result<PathBuf> {
            let content = crow_fs::read_bounded(&self.resolved, MAX_WRITTEN);
            crow_fs::remove_file(&self.resolved)?;
            let text = String::from_utf8(content?).map_err(io::Error::other)?;
            let path = Path::new(text.strip_suffix('\n').unwrap_or(&text)).canonicalize()?;
            if path.is_dir() { Ok(path) } else { Err(io::ErrorKind::NotADirectory.into()) }
        };
        blocking_until_cancelled(ctx, work).await.ok()?.ok()
    }
}

/// The effect of a command on the folder of the next one: a note for the model, and the new folder.
pub(super) struct FolderChange {
    pub note: String,
    pub next_folder: Option<PathBuf>,
}

/// Compares the folders in which a command started and ended, and lets the next command start where it ended.
pub(super) fn update_shell_folder(
    start: StartFolder,
    end: Option<PathBuf>,
    ctx: &ToolContext,
) -> Option<FolderChange> {
    let StartFolder { folder, missing: gone } = start;
    let end = end.filter(|end| *end != folder);
    let moved = match (end, gone) {
        (Some(end), _) if ctx.workspace.contains(&end) => FolderChange {
            note: format!("now in {}", display_path(&end, ctx)),
            next_folder: Some(end),
        },
        (Some(end), _) => FolderChange {
            note: format!(
                "ended in {}, outside the project; the next command starts in {} again",
                display_path(&end, ctx),
                display_path(
                    ctx.resources
                        .get::<ShellFolder>()
                        .as_ref()
                        .map_or(ctx.workspace.cwd(), |kept| &kept.0),
                    ctx
                )
            ),
            next_folder: None,
        },
        (None, Some(gone)) => FolderChange {
            note: format!(
                "{} is gone, so this ran in {}",
                display_path(&gone, ctx),
                display_path(&folder, ctx)
            ),
            next_folder: Some(folder),
        },
        (None, None) => return None,
    };
    if let Some(kept) = &moved.next_folder {
        ctx.resources.insert(ShellFolder(kept.clone()));
    }
    Some(moved)
}
