//! The builder of environments.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    CheckState, Environment, EnvironmentState, KnowledgeBase, SystemState, TaskState,
    WorkspaceState,
};

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
