//! A shell line, and what is understood of it.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A shell line, and what is understood of it. Permission rules match on its commands, never on its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandLine {
    /// The line as the shell gets it.
    pub text: String,
    /// Where it starts, if that is not the workspace's working directory. Absolute and resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// What it would run.
    #[serde(flatten)]
    pub meaning: CommandMeaning,
}

impl CommandLine {
    /// Returns whether it may leave the folder that it starts in, at any time.
    pub fn may_change_folder(&self) -> bool {
        const MOVERS: [&str; 8] =
            ["cd", "pushd", "popd", "source", ".", "eval", "command", "builtin"];

        match &self.meaning {
            CommandMeaning::Unclear(_) => true,
            CommandMeaning::Commands(commands) => {
                commands.iter().any(|command| match command.words.first() {
                    Some(Word::Literal(program)) => MOVERS.contains(&program.as_str()),
                    Some(Word::Computed(_)) => true,
                    None => false,
                })
            }
        }
    }
}

/// What a shell line would run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommandMeaning {
    /// These commands and no others, in the order in which they are written: those of lists, pipes, substitutions,
    /// bodies, and those that a wrapper (`sudo`, `xargs`, `sh -c`) starts.
    Commands(Vec<SimpleCommand>),
    /// Something in it is not understood, so that anything may be run. The text says what.
    Unclear(String),
}

/// One program that a shell line starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SimpleCommand {
    /// The program and its arguments.
    pub words: Vec<Word>,
    /// The commands before it that only start it (`nohup`, `timeout 5`), with all their words. Nothing need allow them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrappers: Vec<Word>,
    /// The names of variables that are set for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assignments: Vec<String>,
    /// Files that its output or input goes to or comes from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redirects: Vec<Redirect>,
}

impl SimpleCommand {
    /// Returns the words up to the first one that is only known when the line runs.
    pub fn literal_words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map_while(Word::as_literal)
    }
}

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// The word as the program gets it, without quotes.
    Literal(String),
    /// A word that is known only when the line runs: a variable, a substitution, a pattern. As it is written.
    Computed(String),
}

impl Word {
    /// Returns the word as the program gets it, if that is known.
    pub fn as_literal(&self) -> Option<&str> {
        match self {
            Self::Literal(word) => Some(word),
            Self::Computed(_) => None,
        }
    }
}

/// A file that a command's output or input is connected with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Redirect {
    /// How the file is touched.
    pub access: super::Access,
    /// The file. Copies of descriptors (`2>&1`) are left out.
    pub target: Word,
}
