//! A parsed shell line.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Access;

/// A shell line, and the commands parsed from it. Permission rules match on its commands, never on its text.
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
    /// Returns true if a command of the line may change its directory.
    pub fn may_change_folder(&self) -> bool {
        const MOVERS: [&str; 8] =
            ["cd", "pushd", "popd", "source", ".", "eval", "command", "builtin"];

        match &self.meaning {
            CommandMeaning::Unclear(_) => true,
            CommandMeaning::Commands(commands) => {
                commands.iter().any(|command| match command.words.first() {
                    Some(CommandWord::Literal(program)) => MOVERS.contains(&program.as_str()),
                    Some(CommandWord::Computed(_)) => true,
                    None => false,
                })
            }
        }
    }

    /// Returns true if the line only reads, except for programs that settings of the project may make it start. Such
    /// a line may run in a sandbox in which nothing can be changed.
    pub fn only_reads(&self) -> bool {
        match &self.meaning {
            CommandMeaning::Unclear(_) => false,
            CommandMeaning::Commands(commands) => {
                !commands.is_empty() && commands.iter().all(SimpleCommand::only_reads)
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
    /// Some of it is unsupported, so it may run anything. The text is the reason.
    Unclear(String),
}

/// One program that a shell line starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SimpleCommand {
    /// The program and its arguments.
    pub words: Vec<CommandWord>,
    /// The commands before it that only start it (`nohup`, `timeout 5`), with all their words. Nothing need allow them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrappers: Vec<CommandWord>,
    /// The names of variables that are set for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assignments: Vec<String>,
    /// Files that its output or input goes to or comes from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redirects: Vec<Redirect>,
    /// Files and folders that its words are known to name, as the program touches them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touches: Vec<PathTouch>,
    /// What it does beside that.
    #[serde(default, skip_serializing_if = "SideEffects::is_anything")]
    #[serde(rename = "extent")]
    pub side_effects: SideEffects,
    /// True if the program makes files where its words say, so that it may also change what it touches to read it. Not stored: a line
    /// is planned again before it is decided about.
    #[serde(skip)]
    pub may_change_read: bool,
    /// The positions in [`words`](Self::words) of options and operands that may make the program do something else than
    /// its first words say. A permission for first words covers the command only if it names these, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlisted: Vec<usize>,
    /// The last name of the program's file where a link to it has another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linked_program: Option<String>,
}

impl SimpleCommand {
    /// Returns the words before the first one that is only known when the line runs.
    pub fn literal_words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map_while(CommandWord::as_literal)
    }

    fn only_reads(&self) -> bool {
        let reads = match self.side_effects {
            SideEffects::Reads | SideEffects::SandboxedReads => true,
            SideEffects::Anything | SideEffects::Hidden => false,
        };
        reads && !self.redirects.iter().any(Redirect::writes)
    }
}

/// What a command does beside touching what its words name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SideEffects {
    /// Anything: it may be any program.
    #[default]
    Anything,
    /// Anything, and what its words name is known only when the line runs: files that it changes, a folder it goes to.
    Hidden,
    /// Nothing: it reads what it touches, changes nothing and starts nothing.
    Reads,
    /// Nothing by itself, but settings of the project may name programs that it starts, as those of git do.
    #[serde(rename = "held_reads")]
    SandboxedReads,
}

impl SideEffects {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    fn is_anything(&self) -> bool {
        *self == Self::Anything
    }
}

/// A file or folder that a command touches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PathTouch {
    /// How it is touched.
    pub access: Access,
    /// The absolute path, with links resolved as far as it exists.
    pub path: PathBuf,
    /// How much of it.
    pub depth: TouchDepth,
}

/// How much of a folder is touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TouchDepth {
    /// The file or folder itself.
    Itself,
    /// All that is in it, too.
    Below,
    /// Files in it, which are known only when the command runs.
    Within,
}

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommandWord {
    /// The word as the program gets it, without quotes.
    Literal(String),
    /// A word that is known only when the line runs: a variable, a substitution, a pattern. As it is written.
    Computed(String),
}

impl CommandWord {
    /// Returns the word as the program gets it, if known.
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
    pub access: Access,
    /// The file. Copies of descriptors (`2>&1`) are left out.
    pub target: CommandWord,
    /// The absolute path of the file, with links resolved, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

impl Redirect {
    /// Returns true if it changes a file.
    pub fn writes(&self) -> bool {
        self.access == Access::Write && !self.is_device()
    }

    /// Returns true if it is the null device or an already open stream.
    pub fn is_device(&self) -> bool {
        const DEVICES: [&str; 4] = ["/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"];

        self.target.as_literal().is_some_and(|target| DEVICES.contains(&target))
    }
}
