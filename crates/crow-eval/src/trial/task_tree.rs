//! The files of a task as the program finds them, made once for all its trials.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use tokio_util::sync::CancellationToken;

use super::{
    TrialHost,
    task_commands::{LineEnd, LineResult, TaskLine, run_line},
};
use crate::{folder_copy::copy_tree, task::EvalTask};

/// The state of a task before its trials.
#[derive(Debug)]
pub(crate) enum TaskTree {
    /// The check fails on these files, as it should.
    Ready(PathBuf),
    /// The check passes on these files.
    AlwaysPasses,
    /// The files could not be made. With the reason.
    SetupFailed(String),
}

impl TaskTree {
    /// Makes the files in a folder that does not exist, and runs the check on a copy. Returns `None` if it was cancelled.
    pub(crate) async fn make(
        task: &EvalTask,
        folder: &Path,
        host: &TrialHost,
        cancellation: &CancellationToken,
    ) -> Option<Self> {
        let tree = folder.join("files");
        if let Err(error) = write_files(task, &tree).await {
            return Some(Self::SetupFailed(error.to_string()));
        }
        if task.setup.is_some() {
            let result = run_line(TaskLine::Setup, task, &tree, host, cancellation).await;
            match result.end {
                LineEnd::Passed => {}
                LineEnd::Cancelled => return None,
                LineEnd::Failed(_) | LineEnd::TimedOut => {
                    return Some(Self::SetupFailed(result.message()));
                }
            }
        }
        let copy = folder.join("untouched");
        let end = match checked_copy(task, &tree, &copy, host, cancellation).await {
            Ok(result) => result.end,
            Err(error) => return Some(Self::SetupFailed(error.to_string())),
        };
        remove(copy).await;
        match end {
            LineEnd::Passed => Some(Self::AlwaysPasses),
            // A check that hangs here may end once the work is done.
            LineEnd::Failed(_) | LineEnd::TimedOut => Some(Self::Ready(tree)),
            LineEnd::Cancelled => None,
        }
    }
}

/// Copies a tree and runs the check there.
async fn checked_copy(
    task: &EvalTask,
    tree: &Path,
    copy: &Path,
    host: &TrialHost,
    cancellation: &CancellationToken,
) -> io::Result<LineResult> {
    copy_in_background(tree, copy).await?;
    check(task, copy, host, cancellation).await
}

/// Writes the files of the check over those in a folder, and runs it.
pub(super) async fn check(
    task: &EvalTask,
    folder: &Path,
    host: &TrialHost,
    cancellation: &CancellationToken,
) -> io::Result<LineResult> {
    let (files, target) = (task.check_files.clone(), folder.to_owned());
    in_background(move || files.write(&target)).await?;
    Ok(run_line(TaskLine::Check, task, folder, host, cancellation).await)
}

async fn write_files(task: &EvalTask, tree: &Path) -> io::Result<()> {
    let (files, tree) = (task.files.clone(), tree.to_owned());
    in_background(move || {
        fs::create_dir_all(&tree)?;
        files.write(&tree.canonicalize()?)
    })
    .await
}

/// Copies a tree without blocking other trials.
pub(super) async fn copy_in_background(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (from.to_owned(), to.to_owned());
    in_background(move || copy_tree(&from, &to)).await
}

/// Removes a folder. What cannot be removed stays until the temporary folder of the run is removed.
pub(super) async fn remove(folder: PathBuf) {
    let removed = in_background(move || fs::remove_dir_all(&folder)).await;
    if let Err(error) = removed {
        tracing::debug!(%error, "a folder of a trial stays");
    }
}

/// Runs blocking work on the pool.
pub(super) async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}
