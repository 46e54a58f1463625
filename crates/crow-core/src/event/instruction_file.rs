//! Files with instructions for agents, as events describe them.

use std::{fmt, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::file_views::ContentHash;

/// A file whose instructions the model was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstructionFile {
    /// The file, by the name under which it was found.
    pub path: PathBuf,
    /// Who wrote it.
    pub author: InstructionAuthor,
    /// Hash of its content. None if the file no longer has instructions, so that those before count no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<ContentHash>,
    /// Its size in bytes.
    pub bytes: u64,
    /// How many of these bytes the model was given.
    pub shown_bytes: u64,
}

/// The author of a file with instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InstructionAuthor {
    /// The user: the file is part of the user's own configuration.
    User,
    /// The authors of the project.
    Repository,
}

impl fmt::Display for InstructionFile {
    /// Writes one line for people, such as `/p/AGENTS.md (40000 bytes, the first 24000 shown)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, author: _, hash, bytes, shown_bytes } = self;
        write!(f, "{}", path.display())?;
        match (hash, shown_bytes) {
            (None, _) => f.write_str(" (counts no longer)"),
            (Some(_), shown) if shown == bytes => write!(f, " ({bytes} bytes)"),
            (Some(_), 0) => write!(f, " ({bytes} bytes, not shown)"),
            (Some(_), shown) => write!(f, " ({bytes} bytes, the first {shown} shown)"),
        }
    }
}
