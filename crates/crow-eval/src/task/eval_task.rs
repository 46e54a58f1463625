//! One task: what the program is told, the files it finds, and the command that judges its work.

use std::{collections::BTreeMap, fmt, io, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use crate::folder_copy::{FileSet, add_part};

/// A task, independent of the form in which it was read.
#[derive(Debug, Clone)]
pub struct EvalTask {
    /// Its name, unique in a set.
    pub name: String,
    /// What the program is told to do.
    pub prompt: String,
    /// Labels, for people.
    pub tags: Vec<String>,
    /// Limits of its processes.
    pub limits: TaskLimits,
    /// Where it was read, for messages.
    pub origin: String,
    /// Files in the working folder at the start.
    pub(crate) files: FileSet,
    /// Shell line that completes the working folder.
    pub(crate) setup: Option<String>,
    /// Files that are written over the program's work before the check.
    pub(crate) check_files: FileSet,
    /// Shell line that succeeds if and only if the work is right.
    pub(crate) check: String,
    /// Variables of the two lines.
    pub(crate) variables: BTreeMap<String, String>,
    /// Folder of the task, which the two lines find in `TASK_FOLDER`.
    pub(crate) folder: PathBuf,
    /// What the program must not read: the solution or the check may be there.
    pub(crate) hidden: PathBuf,
    pub(crate) hash: TaskHash,
}

/// Limits of the processes of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskLimits {
    /// Time of the program.
    pub program: Duration,
    /// Time of the set-up line.
    pub setup: Duration,
    /// Time of the check.
    pub check: Duration,
    /// Model calls in a turn; without it the program's own limit applies.
    pub max_steps: Option<u32>,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self {
            program: Duration::from_mins(10),
            setup: Duration::from_mins(2),
            check: Duration::from_mins(2),
            max_steps: None,
        }
    }
}

/// Hash of everything that decides the result of a task. Results of tasks with different hashes cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskHash(String);

impl fmt::Display for TaskHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TaskHash {
    /// Hash of a task that was not computed yet.
    pub(super) fn unset() -> Self {
        Self(String::new())
    }
}

impl EvalTask {
    /// Returns the hash of the task.
    pub fn hash(&self) -> &TaskHash {
        &self.hash
    }

    /// Computes the hash; `others` are further bytes on which the result depends. Blocks.
    pub(super) fn with_hash(mut self, others: &[u8]) -> io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        let limits = self.limits;
        let times = [limits.program, limits.setup, limits.check].map(|time| time.as_millis());
        let limits = format!("{times:?} {:?}", limits.max_steps);
        let setup = self.setup.as_deref().unwrap_or("");
        for part in [&self.prompt, setup, &self.check, &limits] {
            add_part(&mut hasher, part.as_bytes());
        }
        add_part(&mut hasher, others);
        self.files.hash(&mut hasher)?;
        add_part(&mut hasher, b"check");
        self.check_files.hash(&mut hasher)?;
        // 64 bits tell versions of one task apart.
        self.hash = TaskHash(hasher.finalize().to_hex()[..16].to_owned());
        Ok(self)
    }
}
