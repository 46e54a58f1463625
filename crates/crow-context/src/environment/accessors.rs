//! The environment: state, schema, and handlers that update it from results of tools.

use std::{
    any::Any,
    collections::BTreeMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{
    CheckState, DeltaOptions, EnvironmentBuilder, EnvironmentDelta, EnvironmentEntry,
    EnvironmentError, EnvironmentRevision, EnvironmentState, JobSummary, KnowledgeBase,
    StateSchema, SystemState, TaskState, WorkspaceState,
    delta::{TextLine, fit},
    entry::EntryList,
};
use crate::TokenCounter;

/// A section of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EnvironmentSection {
    /// [`EnvironmentState::system`].
    System,
    /// [`EnvironmentState::task`].
    Task,
    /// [`EnvironmentState::jobs`].
    Jobs,
    /// [`EnvironmentState::checks`].
    Checks,
    /// [`EnvironmentState::workspace`].
    Workspace,
    /// [`EnvironmentState::knowledge`].
    Knowledge,
    /// [`EnvironmentState::extensions`].
    Extensions,
}

/// What an agent knows of its surroundings, as typed state. See the [module](super) for an example.
#[derive(Clone, Default)]
pub struct Environment {
    pub(super) state: EnvironmentState,
    schema: Option<StateSchema>,
    pub(super) handlers: BTreeMap<String, ToolResultHandler>,
    /// Number of changes by section; 0 where there is none.
    revisions: BTreeMap<EnvironmentSection, u64>,
}

impl EnvironmentSection {
    /// All sections.
    pub const ALL: [Self; 7] = [
        Self::System,
        Self::Task,
        Self::Jobs,
        Self::Checks,
        Self::Workspace,
        Self::Knowledge,
        Self::Extensions,
    ];

    /// Returns the name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Task => "task",
            Self::Jobs => "jobs",
            Self::Checks => "checks",
            Self::Workspace => "workspace",
            Self::Knowledge => "knowledge",
            Self::Extensions => "extensions",
        }
    }

    /// Returns the section with this name in JSON.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|section| section.as_str() == name)
    }
}

impl From<EnvironmentState> for Environment {
    fn from(state: EnvironmentState) -> Self {
        Self { state, ..Self::default() }
    }
}

impl Environment {
    /// Makes an environment from JSON. Members that are not the name of a section become extensions. Fails if a section
    /// does not have its type, or if the value is no object.
    pub fn new(initial_state: Value) -> Result<Self, EnvironmentError> {
        let mut members = match initial_state {
            Value::Object(members) => members,
            other => {
                let state = super::pointer::typed::<EnvironmentState>("", other)?;
                return Ok(state.into());
            }
        };
        let is_own = |name: &String| EnvironmentSection::from_name(name).is_none();
        let names: Vec<String> = members.keys().filter(|name| is_own(name)).cloned().collect();
        let mut own = BTreeMap::new();
        for name in names {
            if let Some(value) = members.remove(&name) {
                own.insert(name, value);
            }
        }
        let mut environment = Self::default();
        for (name, value) in members {
            environment.set(&format!("/{name}"), value)?;
        }
        environment.state.extensions.extend(own);
        environment.revisions.clear();
        Ok(environment)
    }

    /// Returns a builder.
    pub fn builder() -> EnvironmentBuilder {
        EnvironmentBuilder::default()
    }

    /// Sets a schema for the whole state. Fails if the present state violates it. From then on [`set`](Self::set),
    /// [`set_extension`](Self::set_extension) and
    /// [`update_from_tool_result`](Self::update_from_tool_result) refuse changes that would; changes through references
    /// are not checked, see [`validate`](Self::validate).
    pub fn with_schema(mut self, schema: StateSchema) -> Result<Self, EnvironmentError> {
        schema.validate_state(&self.state)?;
        self.schema = Some(schema);
        Ok(self)
    }

    /// Checks the state against the schema, if there is one.
    pub fn validate(&self) -> Result<(), EnvironmentError> {
        self.check(&self.state)
    }

    /// Returns the whole state.
    pub fn state(&self) -> &EnvironmentState {
        &self.state
    }

    /// Returns the machine, and what the agent may do there.
    pub fn system(&self) -> &SystemState {
        &self.state.system
    }

    /// Returns the system section for changes.
    pub fn system_mut(&mut self) -> &mut SystemState {
        self.touch(EnvironmentSection::System);
        &mut self.state.system
    }

    /// Returns the task.
    pub fn task(&self) -> &TaskState {
        &self.state.task
    }

    /// Returns the task for changes.
    pub fn task_mut(&mut self) -> &mut TaskState {
        self.touch(EnvironmentSection::Task);
        &mut self.state.task
    }

    /// Returns the jobs by id.
    pub fn jobs(&self) -> &BTreeMap<String, JobSummary> {
        &self.state.jobs
    }

    /// Returns the jobs for changes.
    pub fn jobs_mut(&mut self) -> &mut BTreeMap<String, JobSummary> {
        self.touch(EnvironmentSection::Jobs);
        &mut self.state.jobs
    }

    /// Returns the checks by name.
    pub fn checks(&self) -> &BTreeMap<String, CheckState> {
        &self.state.checks
    }

    /// Returns the checks for changes.
    pub fn checks_mut(&mut self) -> &mut BTreeMap<String, CheckState> {
        self.touch(EnvironmentSection::Checks);
        &mut self.state.checks
    }

    /// Returns files and artifacts.
    pub fn workspace(&self) -> &WorkspaceState {
        &self.state.workspace
    }

    /// Returns files and artifacts for changes.
    pub fn workspace_mut(&mut self) -> &mut WorkspaceState {
        self.touch(EnvironmentSection::Workspace);
        &mut self.state.workspace
    }

    /// Returns what the agent found out.
    pub fn knowledge(&self) -> &KnowledgeBase {
        &self.state.knowledge
    }

    /// Returns what the agent found out, for changes.
    pub fn knowledge_mut(&mut self) -> &mut KnowledgeBase {
        self.touch(EnvironmentSection::Knowledge);
        &mut self.state.knowledge
    }

    /// Returns a value of the program. Fails if there is none of that name, or if it has another type.
    pub fn get_extension<T: DeserializeOwned>(&self, name: &str) -> Result<T, EnvironmentError> {
        self.state.get_extension(name)
    }

    /// Stores a value of the program and replaces the one of that name. Fails if it cannot be written as JSON, or
    /// violates the schema.
    pub fn set_extension<T: Serialize>(
        &mut self,
        name: &str,
        value: T,
    ) -> Result<(), EnvironmentError> {
        self.set(&super::pointer::extension_pointer(name), value)
    }

    /// Returns the number of changes of a section so far. Each access for changes counts as one.
    pub fn section_revision(&self, section: EnvironmentSection) -> u64 {
        self.revisions.get(&section).copied().unwrap_or(0)
    }

    /// Returns the entries that a model is told, without a budget: of each group the first ones.
    pub fn entries(&self) -> Vec<EnvironmentEntry> {
        EntryList::new(&self.state).shown
    }

    /// Writes the state for a model, in at most `max_tokens`: task, system, checks, jobs, files changed by others, files
    /// with uncommitted changes, files read, artifacts, knowledge, extensions. Only whole entries; a last line `+N more`
    /// counts those that do not fit. Empty if not even the first entry fits.
    pub fn to_context(&self, max_tokens: u64, counter: &dyn TokenCounter) -> String {
        let list = EntryList::new(&self.state);
        let mut lines = Vec::new();
        for group in super::EntryGroup::ALL {
            let entries = list.shown.iter().filter(|entry| entry.group == group);
            lines.extend(entries.map(|entry| TextLine { text: entry.to_line(), entries: 1 }));
            if let Some(&hidden) = list.hidden.get(&group) {
                let text = format!("+{hidden} more {}", group.noun());
                lines.push(TextLine { text, entries: hidden });
            }
        }
        fit(&lines, "entries", max_tokens, counter).0
    }

    /// Returns the revision of a reader who knows all [`entries`](Self::entries).
    pub fn revision(&self) -> EnvironmentRevision {
        EnvironmentRevision::of_entries(&self.entries())
    }

    /// Returns what changed since a revision, in at most [`DeltaOptions::max_tokens`]. Returns `None` if nothing changed
    /// that is urgent and fewer than [`DeltaOptions::batch`] other entries: changes that are soon undone are never told.
    pub fn delta_since(
        &self,
        since: &EnvironmentRevision,
        options: &DeltaOptions,
        counter: &dyn TokenCounter,
    ) -> Option<EnvironmentDelta> {
        since.delta_to(&EntryList::new(&self.state), options, counter)
    }

    pub(super) fn check(&self, state: &EnvironmentState) -> Result<(), EnvironmentError> {
        self.schema.as_ref().map_or(Ok(()), |schema| schema.validate_state(state))
    }

    /// Replaces the state if the schema permits it.
    pub(super) fn replace_state(
        &mut self,
        state: EnvironmentState,
    ) -> Result<(), EnvironmentError> {
        self.check(&state)?;
        for section in EnvironmentSection::ALL {
            if !section.is_equal(&self.state, &state) {
                self.touch(section);
            }
        }
        self.state = state;
        Ok(())
    }

    fn touch(&mut self, section: EnvironmentSection) {
        *self.revisions.entry(section).or_default() += 1;
    }
}

impl EnvironmentSection {
    fn is_equal(self, one: &EnvironmentState, other: &EnvironmentState) -> bool {
        match self {
            Self::System => one.system == other.system,
            Self::Task => one.task == other.task,
            Self::Jobs => one.jobs == other.jobs,
            Self::Checks => one.checks == other.checks,
            Self::Workspace => one.workspace == other.workspace,
            Self::Knowledge => one.knowledge == other.knowledge,
            Self::Extensions => one.extensions == other.extensions,
        }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("state", &self.state)
            .field("schema", &self.schema)
            .field("handlers", &self.handlers.keys())
            .finish_non_exhaustive()
    }
}

/// Most bytes of a result that is stored as it is.
const LARGEST_RESULT: usize = 16 * 1024;
/// Most sources that results of searches add.
const MOST_SOURCES: usize = 200;
/// Extension with the last results of tools without a handler, by tool.
const TOOL_RESULTS: &str = "tool_results";

/// Updates the state from the result of a tool: parsed as JSON, or as a string if it is none. Returns the reason if the
/// result cannot be used.
pub type ToolResultHandler =
    Arc<dyn Fn(&mut EnvironmentState, &Value) -> Result<(), String> + Send + Sync>;

impl Environment {
    /// Sets the handler for the results of a tool, and replaces the present one.
    pub fn register_handler(
        &mut self,
        tool: impl Into<String>,
        handler: impl Fn(&mut EnvironmentState, &Value) -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.handlers.insert(tool.into(), Arc::new(handler));
    }

    /// Updates the state from the result of a tool by its handler. Without a handler, `directory_tree` is stored in
    /// [`WorkspaceState::extra`](super::WorkspaceState::extra), the results of `search` become sources in the
    /// [`KnowledgeBase`](super::KnowledgeBase), and any other result replaces the one before in the extension
    /// `tool_results`.
    ///
    /// Fails if the handler rejects the result or panics, and if the new state would violate the schema: nothing changes
    /// then.
    pub fn update_from_tool_result(
        &mut self,
        tool: &str,
        result: &str,
    ) -> Result<(), EnvironmentError> {
        let value = serde_json::from_str(result).unwrap_or_else(|_| Value::String(result.into()));
        // The handler works on a copy, so a failure leaves no half of an update.
        let mut state = self.state.clone();
        match self.handlers.get(tool) {
            Some(handler) => {
                let outcome = catch_unwind(AssertUnwindSafe(|| handler(&mut state, &value)));
                let tool = tool.to_owned();
                match outcome {
                    Ok(Ok(())) => {}
                    Ok(Err(message)) => {
                        return Err(EnvironmentError::ResultRejected { tool, message });
                    }
                    Err(panic) => {
                        let message = panic_message(panic.as_ref());
                        return Err(EnvironmentError::HandlerPanicked { tool, message });
                    }
                }
            }
            None => match tool {
                "directory_tree" => {
                    state.workspace.extra.insert(tool.to_owned(), bounded(value, result));
                }
                "search" => add_sources(&mut state, &value),
                _ => add_tool_result(&mut state, tool, bounded(value, result)),
            },
        }
        self.replace_state(state)
    }
}

/// Returns a result, or a note in place of one that is too large.
fn bounded(value: Value, result: &str) -> Value {
    if result.len() <= LARGEST_RESULT {
        return value;
    }
    json!({ "omitted_bytes": result.len() })
}

fn add_tool_result(state: &mut EnvironmentState, tool: &str, value: Value) {
    let results = state.extensions.entry(TOOL_RESULTS.to_owned()).or_insert(Value::Null);
    match results {
        Value::Object(results) => {
            results.insert(tool.to_owned(), value);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            let mut map = Map::new();
            map.insert(tool.to_owned(), value);
            *results = Value::Object(map);
        }
    }
}

/// Adds the results of a search as sources: a list, or the list in `results`, of objects with a `url`, `path` or `title`.
fn add_sources(state: &mut EnvironmentState, value: &Value) {
    let list = value.get("results").unwrap_or(value).as_array();
    let text = |item: &Value, keys: &[&str]| {
        let found = keys.iter().find_map(|key| item.get(key).and_then(Value::as_str));
        found.map(str::to_owned)
    };
    for item in list.into_iter().flatten() {
        let sources = &mut state.knowledge.sources;
        let Some(name) = text(item, &["url", "path", "title"]) else { continue };
        if sources.len() >= MOST_SOURCES && !sources.contains_key(&name) {
            continue;
        }
        let description = text(item, &["snippet", "text", "description", "title"]);
        sources.insert(name, description.unwrap_or_else(|| "found by a search".to_owned()));
    }
}

/// Returns the message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_owned())
}
