//! Grants: permissions for the rest of a session.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tool_types::Access;

/// A narrow kind of calls that a person can allow for the rest of the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// Calls of this tool.
    Tool(String),
    /// Commands that begin with these words.
    Command(Vec<String>),
    /// Calls that touch this file, or files below this folder, in this way.
    Path {
        /// How it is touched.
        access: Access,
        /// The file or folder.
        path: PathBuf,
    },
}

/// What an "always" could mean for a call that is asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GrantOffer {
    /// What would be allowed, in a few words: "commands that begin with `cargo test`".
    pub label: String,
    /// The grants that together cover the call.
    pub grants: Vec<Grant>,
}
