//! Plans of calls: the category of the tool, what a call would touch, and the output while it runs.

use std::{fmt, path::PathBuf, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CommandLine, Patch};
use crate::{file_views::ContentHash, network::HostAddress};

/// The plan of a call. Permission, ordering and snapshots are based on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallPlan {
    /// One line for the user: `edit src/main.rs`, `cargo test`.
    pub title: String,
    /// Paths or other state that it touches.
    pub effects: Effects,
    /// The subject that permission rules match.
    pub subject: Subject,
}

impl CallPlan {
    /// Adds that the call also reads the files that it writes, and that the model may learn what is in them.
    #[must_use]
    pub fn with_read_of_written(mut self) -> Self {
        if let Effects::Paths(paths) = &mut self.effects {
            let written = paths.iter().filter(|effect| effect.access == Access::Write);
            let read = |effect: &PathEffect| PathEffect { access: Access::Read, ..effect.clone() };
            let read: Vec<_> = written.map(read).collect();
            paths.extend(read);
        }
        self
    }

    /// Plans a call of which only the tool's category is known: one that writes, runs programs or is external may touch
    /// anything, others nothing.
    pub fn of_category(title: impl Into<String>, category: ToolCategory) -> Self {
        let effects = match category {
            ToolCategory::Write | ToolCategory::Execute | ToolCategory::External => {
                Effects::Unknown
            }
            ToolCategory::Read
            | ToolCategory::Network
            | ToolCategory::Session
            | ToolCategory::Agent => Effects::None,
        };
        Self { effects, ..Self::without_effects(title) }
    }

    /// Plans a call that touches nothing outside the session.
    pub fn without_effects(title: impl Into<String>) -> Self {
        Self { title: title.into(), effects: Effects::None, subject: Subject::Nothing }
    }
}

/// The effects of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effects {
    /// None outside the session.
    None,
    /// On these paths and no others.
    Paths(Vec<PathEffect>),
    /// On anything.
    Unknown,
    /// On anything, by commands that the user configured and the call does not influence. The model needs no
    /// permission for them.
    UserCommands,
}

/// A path that a call touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathEffect {
    /// The absolute path with symbolic links resolved as far as it exists.
    pub path: PathBuf,
    /// The kind of access.
    pub access: Access,
    /// The file at the path when the call was planned. A tool refuses the call if it finds another one.
    pub planned: PlannedFile,
}

impl PathEffect {
    /// Returns true if this reads a file that one of the effects writes.
    pub(crate) fn is_read_of_written(&self, all: &[Self]) -> bool {
        self.access == Access::Read
            && all.iter().any(|other| other.access == Access::Write && other.path == self.path)
    }

    /// Makes the effect on whatever file is at the path when the call runs.
    pub fn new(path: impl Into<PathBuf>, access: Access) -> Self {
        Self { path: path.into(), access, planned: PlannedFile::Any }
    }
}

/// The file at a path when a call was planned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PlannedFile {
    /// Not recorded: the call may use whatever file is at the path.
    #[default]
    Any,
    /// A file or directory, identified by device and inode.
    Existing {
        /// Its device number.
        device: u64,
        /// Its inode number.
        inode: u64,
    },
    /// No file. Identifies the nearest existing directory above.
    Missing {
        /// The path of the directory.
        folder: PathBuf,
        /// The device number of the directory.
        device: u64,
        /// The inode number of the directory.
        inode: u64,
    },
}

/// How a path is touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Only read.
    Read,
    /// Created, changed or deleted.
    Write,
}

/// What permission rules match on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
pub enum Subject {
    /// Only the tool itself.
    Nothing,
    /// A path.
    Path(PathBuf),
    /// A shell line.
    Command(CommandLine),
    /// A host of the internet that is asked for something. Nothing is changed on this machine.
    Host(HostAddress),
}

impl Subject {
    /// Returns true if it is a shell line that changes nothing.
    pub fn only_reads(&self) -> bool {
        matches!(self, Self::Command(line) if line.only_reads())
    }
}

/// The preview that the user is shown before allowing a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The change that would be made.
    pub patch: Patch,
    /// Hashes of the content that the change is based on; none if the file did not exist. The call is refused if one
    /// differs.
    pub basis: Vec<(PathBuf, Option<ContentHash>)>,
}

/// What kind of thing a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolCategory {
    /// Looks at files. Such calls run side by side.
    Read,
    /// Changes files.
    Write,
    /// Runs programs.
    Execute,
    /// Talks to the network.
    Network,
    /// Touches only the session's own state: todo list, thoughts, end of the task.
    Session,
    /// Starts other agents.
    Agent,
    /// Runs on a server outside of the agent: what it reads, sends or changes is not observed.
    External,
}

impl fmt::Display for ToolCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
            Self::Network => "network",
            Self::Session => "session",
            Self::Agent => "agent",
            Self::External => "external",
        })
    }
}

/// Receives output of a call while it runs. All of it is shown, up to a limit; the result contains everything.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<dyn Fn(String) + Send + Sync>>);

impl Progress {
    /// Reports to `sink`, which must not block.
    pub fn new(sink: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(sink)))
    }

    /// Reports some output.
    pub fn report(&self, output: impl Into<String>) {
        if let Some(sink) = &self.0 {
            sink(output.into());
        }
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Progress").field(&self.0.is_some()).finish()
    }
}
