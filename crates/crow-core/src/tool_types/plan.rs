//! What a call is going to do, told before it does it.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CommandLine, Patch, ToolCategory};
use crate::file_views::ContentHash;

/// What a call is going to do. Permission, ordering and snapshots go by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallPlan {
    /// One line for the user: `edit src/main.rs`, `cargo test`.
    pub title: String,
    /// What it touches.
    pub effects: Effects,
    /// What permission rules match on.
    pub subject: Subject,
}

impl CallPlan {
    /// Plans a call of which no more is known than what kind of thing its tool does: what writes, runs programs or is done
    /// elsewhere may touch anything, all else nothing.
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
        Self { effects, ..Self::inert(title) }
    }

    /// Plans a call that touches nothing outside the session.
    pub fn inert(title: impl Into<String>) -> Self {
        Self { title: title.into(), effects: Effects::None, subject: Subject::Nothing }
    }
}

/// What a call touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effects {
    /// Nothing outside the session.
    None,
    /// These paths and no others.
    Paths(Vec<PathEffect>),
    /// Anything.
    Unknown,
    /// Anything, by commands that the user configured and of which the call decides nothing. The model needs no
    /// permission for them.
    UserCommands,
}

/// A path that a call touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathEffect {
    /// The absolute path with symbolic links resolved as far as it exists.
    pub path: PathBuf,
    /// How it is touched.
    pub access: Access,
    /// Which file was there when the call was planned. A tool refuses the call if it finds another one.
    pub planned: PlannedFile,
}

impl PathEffect {
    /// Makes the effect on whatever file is at the path when the call runs.
    pub fn new(path: impl Into<PathBuf>, access: Access) -> Self {
        Self { path: path.into(), access, planned: PlannedFile::Any }
    }
}

/// Which file was at a path when a call was planned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PlannedFile {
    /// Not recorded: the call may use whatever file is at the path.
    #[default]
    Any,
    /// A file or folder, by the numbers that tell it from others.
    Existing {
        /// The device that it is on.
        device: u64,
        /// Its number on the device.
        inode: u64,
    },
    /// None. The nearest folder above it that existed, by its path and numbers.
    Missing {
        /// The path of the folder.
        folder: PathBuf,
        /// The device that the folder is on.
        device: u64,
        /// The number of the folder on the device.
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
}

impl Subject {
    /// Returns whether it is a shell line that changes nothing.
    pub fn only_reads(&self) -> bool {
        matches!(self, Self::Command(line) if line.only_reads())
    }
}

/// What the user is shown before allowing a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The change that would be made.
    pub patch: Patch,
    /// The content that the change was worked out on. The call is refused if a file differs by then.
    pub basis: Vec<(PathBuf, Option<ContentHash>)>,
}
