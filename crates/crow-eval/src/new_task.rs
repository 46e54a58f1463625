//! Making a task from a past session: its first prompt, the files before it, and a check.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

use crow_core::{
    event::{AgentEvent, Envelope, InputSource},
    message::Block,
};
use crow_runtime::{SnapshotEntry, UndoError, UndoJournal};
use toml::{Table, Value};

use crate::{
    folder_copy::{FileSet, TaskFileContent},
    task::TASK_FILE,
};

/// Name of the file with the prompt.
const PROMPT: &str = "prompt.md";
/// Name of the folder with the files.
const FILES: &str = "files";

/// A task to be made from a session.
#[derive(Debug)]
pub struct NewTask<'a> {
    /// The changes of the session.
    pub journal: &'a UndoJournal,
    /// The events of the session.
    pub events: &'a [Envelope],
    /// The shell line that will judge the work.
    pub check: &'a str,
}

/// A task that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenTask {
    /// Number of files in its working folder.
    pub files: usize,
    /// Files that have their present content, since the one before the session was not stored.
    pub unknown: Vec<PathBuf>,
}

/// Error of making a task.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NewTaskError {
    /// The session has no prompt.
    #[error("the session has no prompt")]
    NoPrompt,
    /// The check is empty.
    #[error("the check is empty: it would pass")]
    NoCheck,
    /// The folder exists.
    #[error("{} exists", .path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// The changes of the session cannot be read.
    #[error(transparent)]
    Journal(#[from] UndoError),
    /// A file cannot be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl NewTask<'_> {
    /// Writes the task into a folder that does not exist. The files are the present ones of the project, without those
    /// that git ignores and without `.git`, with the changes of the session taken back. Blocks.
    ///
    /// # Errors
    /// Fails if the session has no prompt, or a file cannot be read or written.
    pub fn write(&self, folder: &Path) -> Result<WrittenTask, NewTaskError> {
        if self.check.trim().is_empty() {
            return Err(NewTaskError::NoCheck);
        }
        let prompt = first_prompt(self.events).ok_or(NewTaskError::NoPrompt)?;
        let error = |path: &Path| {
            let path = path.to_owned();
            move |source| NewTaskError::File { path, source }
        };
        let root = self.journal.root();
        let is_git = |path: &Path| path.file_name().is_some_and(|name| name == ".git");
        let listed = root.canonicalize().and_then(|real| FileSet::of_folder(&real, is_git));
        let mut files = listed.map_err(error(root))?;
        self.leave_out_ignored(&mut files);
        let unknown = self.take_back(&mut files)?;
        // 1) The folder, which must be new
        match fs::create_dir(folder) {
            Err(found) if found.kind() == io::ErrorKind::AlreadyExists => {
                return Err(NewTaskError::Exists { path: folder.to_owned() });
            }
            created => created.map_err(error(folder))?,
        }
        // 2) The files, the prompt and the task itself
        let tree = folder.join(FILES);
        fs::create_dir(&tree).map_err(error(&tree))?;
        let real = tree.canonicalize().map_err(error(&tree))?;
        files.write(&real).map_err(error(&tree))?;
        let prompt_path = folder.join(PROMPT);
        fs::write(&prompt_path, prompt).map_err(error(&prompt_path))?;
        let table = [("prompt_file", PROMPT), ("files", FILES), ("check", self.check)]
            .map(|(key, value)| (key.to_owned(), Value::String(value.to_owned())));
        let task_path = folder.join(TASK_FILE);
        fs::write(&task_path, Table::from_iter(table).to_string()).map_err(error(&task_path))?;
        Ok(WrittenTask { files: files.paths().count(), unknown })
    }

    fn leave_out_ignored(&self, files: &mut FileSet) {
        let root = self.journal.root();
        let absolute: Vec<PathBuf> = files.paths().map(|path| root.join(path)).collect();
        let ignored: BTreeSet<PathBuf> =
            self.journal.ignored(absolute.iter().map(PathBuf::as_path));
        for path in ignored {
            if let Ok(below) = path.strip_prefix(root) {
                files.set(below.to_owned(), None);
            }
        }
    }

    /// Puts the paths that the session changed into their state before it. Returns those whose state is not known.
    fn take_back(&self, files: &mut FileSet) -> Result<Vec<PathBuf>, NewTaskError> {
        let root = self.journal.root();
        let mut unknown = Vec::new();
        for (path, entry) in self.journal.start_entries()? {
            // Files outside of the project are not part of the task.
            let Ok(below) = path.strip_prefix(root) else { continue };
            let below = below.to_owned();
            match &entry {
                SnapshotEntry::Absent => files.set(below, None),
                SnapshotEntry::File { mode, .. } => match self.journal.read_entry(&entry) {
                    Ok(bytes) => {
                        files.set(below, Some(TaskFileContent::Bytes { bytes, mode: *mode }));
                    }
                    Err(error) => {
                        tracing::debug!(%error, "the content before the session is not known");
                        unknown.push(below);
                    }
                },
                SnapshotEntry::Link { .. } => {
                    let target = std::ffi::OsString::from_vec(self.journal.read_entry(&entry)?);
                    files.set(below, Some(TaskFileContent::LinkTo(target)));
                }
                // A folder appears with its files.
                SnapshotEntry::Folder { .. } => files.make_folder(&below),
                SnapshotEntry::Unscanned { .. } => unknown.push(below),
            }
        }
        Ok(unknown)
    }
}

/// Returns the text of the first prompt of a session.
fn first_prompt(events: &[Envelope]) -> Option<String> {
    let contents = events.iter().filter_map(|line| {
        if let AgentEvent::UserInput { source: InputSource::Prompt, content, .. } = &line.event {
            Some(content)
        } else {
            None
        }
    });
    contents.map(|content| Block::text_of(content)).find(|text| !text.trim().is_empty())
}
