//! The typed state, and the builder of environments.

use std::{collections::BTreeMap, path::PathBuf};

use crow_core::todo::TodoItem;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    Environment, EnvironmentError,
    pointer::{extension_pointer, to_value, typed},
};

/// The state of an environment. Missing sections and fields are read as their defaults; unknown ones are errors.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EnvironmentState {
    /// The machine, and what the agent may do there.
    pub system: SystemState,
    /// The task.
    pub task: TaskState,
    /// Commands in the background, by id.
    pub jobs: BTreeMap<String, JobSummary>,
    /// The checks that must pass before the task is complete, by name.
    pub checks: BTreeMap<String, CheckState>,
    /// Files and artifacts.
    pub workspace: WorkspaceState,
    /// What the agent found out.
    pub knowledge: KnowledgeBase,
    /// Values of the program, by name.
    pub extensions: BTreeMap<String, Value>,
}

impl EnvironmentState {
    /// Returns a value of the program. Fails if there is none of that name, or if it has another type.
    pub fn get_extension<T: DeserializeOwned>(&self, name: &str) -> Result<T, EnvironmentError> {
        let pointer = extension_pointer(name);
        match self.extensions.get(name) {
            Some(value) => typed(&pointer, value.clone()),
            None => Err(EnvironmentError::NotFound { pointer }),
        }
    }

    /// Stores a value of the program and replaces the one of that name. Fails if it cannot be written as JSON.
    pub fn set_extension<T: Serialize>(
        &mut self,
        name: &str,
        value: T,
    ) -> Result<(), EnvironmentError> {
        let value = to_value(&extension_pointer(name), &value)?;
        self.extensions.insert(name.to_owned(), value);
        Ok(())
    }
}

/// The machine, and what the agent may do there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SystemState {
    /// The working directory. Empty if unknown.
    pub working_directory: PathBuf,
    /// Other directories that the agent works in.
    pub additional_directories: Vec<PathBuf>,
    /// What the agent's calls may do, each as a phrase.
    pub permissions: Vec<String>,
    /// Further facts by name, such as operating system, shell, network, toolchains.
    pub resources: BTreeMap<String, String>,
    /// Seconds between the last turn and the present one, if that is worth telling.
    pub idle_seconds: Option<u64>,
}

/// The task of the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TaskState {
    /// What is to be reached. Empty if unknown.
    pub objective: String,
    /// How far it is.
    pub status: TaskStatus,
    /// Number of steps that are done.
    pub steps_completed: u32,
    /// Number of all steps; 0 if unknown.
    pub steps_total: u32,
    /// The step under way.
    pub current_step: Option<String>,
    /// The todo list, in order.
    pub todo: Vec<TodoItem>,
}

/// How far a task is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Not begun.
    #[default]
    NotStarted,
    /// Being worked on.
    InProgress,
    /// Done.
    Completed,
    /// Given up.
    Failed,
}

/// A command in the background.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobSummary {
    /// The command, in a line.
    pub title: String,
    /// How it ended; `None` while it runs. Only running jobs are told.
    pub end: Option<String>,
}

/// A check that must pass before the task is complete.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckState {
    /// The command.
    pub command: String,
    /// The last outcome as a phrase, such as `passed` or `exit code 1`; `None` before the first run.
    pub outcome: Option<String>,
}

/// The files that the agent works on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkspaceState {
    /// Files by path.
    pub files: BTreeMap<String, FileInfo>,
    /// What the work produced, in order.
    pub artifacts: Vec<ArtifactInfo>,
    /// Further values, which are not told to a model.
    pub extra: BTreeMap<String, Value>,
}

/// A file of the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileInfo {
    /// Hash of the content that was last seen, if it was seen.
    pub hash: Option<String>,
    /// First and last line that was last read; the first line is 1.
    pub lines: Option<(u64, u64)>,
    /// Position in the order of reads: the file with the highest number was read last. 0 if it was never read.
    pub last_read: u64,
    /// True if it has changes that are not committed.
    pub dirty: bool,
    /// What others did to it since it was last seen.
    pub foreign_change: Option<ForeignChange>,
}

/// What others did to a file since the agent last saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForeignChange {
    /// Its content is another.
    Modified,
    /// It is gone.
    Deleted,
}

/// Something that the work produced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ArtifactInfo {
    /// Its name.
    pub name: String,
    /// Its kind, such as `report`.
    pub kind: String,
    /// The file, if it is one.
    pub path: Option<PathBuf>,
}

/// What the agent found out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KnowledgeBase {
    /// Facts, in the order of their discovery.
    pub discovered_facts: Vec<String>,
    /// Where things were found: a description by name or address.
    pub sources: BTreeMap<String, String>,
    /// The important terms.
    pub key_concepts: Vec<String>,
    /// Further values, which are not told to a model.
    pub extra: BTreeMap<String, Value>,
}

/// Builds an [`Environment`]. Sections that are not given are empty.
#[derive(Debug, Clone, Default)]
pub struct EnvironmentBuilder {
    state: EnvironmentState,
}

impl EnvironmentBuilder {
    /// Sets the machine, and what the agent may do there.
    #[must_use]
    pub fn system(mut self, system: SystemState) -> Self {
        self.state.system = system;
        self
    }

    /// Sets the task.
    #[must_use]
    pub fn task(mut self, task: TaskState) -> Self {
        self.state.task = task;
        self
    }

    /// Sets the checks by name.
    #[must_use]
    pub fn checks(mut self, checks: BTreeMap<String, CheckState>) -> Self {
        self.state.checks = checks;
        self
    }

    /// Sets files and artifacts.
    #[must_use]
    pub fn workspace(mut self, workspace: WorkspaceState) -> Self {
        self.state.workspace = workspace;
        self
    }

    /// Sets what the agent knows.
    #[must_use]
    pub fn knowledge(mut self, knowledge: KnowledgeBase) -> Self {
        self.state.knowledge = knowledge;
        self
    }

    /// Adds a value of the program.
    #[must_use]
    pub fn extension(mut self, name: impl Into<String>, value: Value) -> Self {
        self.state.extensions.insert(name.into(), value);
        self
    }

    /// Returns the environment.
    pub fn build(self) -> Environment {
        Environment::from(self.state)
    }
}
