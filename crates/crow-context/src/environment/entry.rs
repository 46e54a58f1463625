//! The entries of which the text for a model consists.
//!
//! An entry is a line `label: value`. Labels are unique and tell by their beginning to which group the entry belongs, so
//! that a text can be read back. What programs and repositories put into the state is shown in one line, within bounds,
//! and cannot end the marks around the text.

use std::collections::{BTreeMap, BTreeSet};

use crow_core::{message::escape_tags, todo::TodoStatus};
use crow_text::{one_line, shorten};
use serde_json::{Map, Value};

use super::{
    EnvironmentState, FileInfo, ForeignChange, KnowledgeBase, SystemState, TaskState, TaskStatus,
};

/// Most bytes of a label.
const LABEL: usize = 200;
/// Most bytes of a value.
const VALUE: usize = 400;
/// Separates label and value.
pub(super) const SEPARATOR: &str = ": ";
/// Label of the time between two turns.
pub(super) const IDLE_LABEL: &str = "time since the last turn";
/// Labels of the task, apart from its todo list.
const TASK_LABELS: [&str; 3] = ["objective", "status", "current step"];
/// Marks that no value may end or begin.
const MARKS: [&str; 3] = ["environment", "system-reminder", "project_instructions"];

/// A group of entries. The order is that of the text, and of importance: what does not fit is cut at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryGroup {
    /// The task and its todo list.
    Task,
    /// The machine, permissions and resources.
    System,
    /// Checks and their last outcomes.
    Checks,
    /// Running jobs.
    Jobs,
    /// Files that others changed since they were last seen.
    ChangedFiles,
    /// Files with changes that are not committed.
    DirtyFiles,
    /// Files that were read, the last one first.
    ReadFiles,
    /// Artifacts.
    Artifacts,
    /// Facts, sources and terms.
    Knowledge,
    /// Values of the program.
    Extensions,
}

/// A line of the text for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentEntry {
    /// The group.
    pub group: EntryGroup,
    /// The label, unique in a state.
    pub label: String,
    /// The value.
    pub value: String,
}

/// The entries of a state.
#[derive(Debug, Default)]
pub(super) struct EntryList {
    /// The entries that are shown: of each group the first ones, up to its maximum.
    pub(super) shown: Vec<EnvironmentEntry>,
    /// Number of further entries by group.
    pub(super) hidden: BTreeMap<EntryGroup, usize>,
    /// The labels of all entries.
    pub(super) labels: BTreeSet<String>,
}

impl EntryGroup {
    /// All groups, in their order.
    pub const ALL: [Self; 10] = [
        Self::Task,
        Self::System,
        Self::Checks,
        Self::Jobs,
        Self::ChangedFiles,
        Self::DirtyFiles,
        Self::ReadFiles,
        Self::Artifacts,
        Self::Knowledge,
        Self::Extensions,
    ];

    /// Returns true if a change of the group is told at once. Changes of the others are told together with such a
    /// change, or when enough of them have come together.
    pub fn is_urgent(self) -> bool {
        match self {
            Self::System | Self::Checks | Self::Jobs | Self::ChangedFiles | Self::DirtyFiles => {
                true
            }
            Self::Task | Self::ReadFiles | Self::Artifacts | Self::Knowledge | Self::Extensions => {
                false
            }
        }
    }

    /// Returns the beginning of the labels; empty for groups whose labels are single words.
    fn prefix(self) -> &'static str {
        match self {
            Self::Task => "todo ",
            Self::System => "",
            Self::Checks => "check ",
            Self::Jobs => "job ",
            Self::ChangedFiles => "changed on disk ",
            Self::DirtyFiles => "dirty ",
            Self::ReadFiles => "read ",
            Self::Artifacts => "artifact ",
            Self::Knowledge => "known ",
            Self::Extensions => "extension ",
        }
    }

    /// Returns the name of several entries of the group.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Task => "todos",
            Self::System => "facts",
            Self::Checks => "checks",
            Self::Jobs => "jobs",
            Self::ChangedFiles => "files changed on disk",
            Self::DirtyFiles => "uncommitted files",
            Self::ReadFiles => "files read",
            Self::Artifacts => "artifacts",
            Self::Knowledge => "known facts",
            Self::Extensions => "extensions",
        }
    }

    /// Returns the maximum number of entries that are shown.
    fn most(self) -> usize {
        match self {
            Self::Task | Self::System | Self::Knowledge => 40,
            Self::Checks
            | Self::Jobs
            | Self::ChangedFiles
            | Self::DirtyFiles
            | Self::ReadFiles
            | Self::Artifacts
            | Self::Extensions => 20,
        }
    }

    /// Returns the group of an entry with this label.
    pub(super) fn of_label(label: &str) -> Self {
        if TASK_LABELS.contains(&label) {
            return Self::Task;
        }
        let by_prefix = Self::ALL.into_iter().find(|group| {
            let prefix = group.prefix();
            !prefix.is_empty() && label.starts_with(prefix)
        });
        by_prefix.unwrap_or(Self::System)
    }
}

impl EnvironmentEntry {
    /// Writes the line, without its end.
    pub fn to_line(&self) -> String {
        format!("{}{SEPARATOR}{}", self.label, self.value)
    }
}

impl EntryList {
    pub(super) fn new(state: &EnvironmentState) -> Self {
        let mut list = Self::default();
        let EnvironmentState { system, task, jobs, checks, workspace, knowledge, extensions } =
            state;
        list.add_task(task);
        list.add_system(system);
        for (name, check) in checks {
            let outcome = check.outcome.as_deref().unwrap_or("not run yet");
            list.add(EntryGroup::Checks, name, &format!("{} ({outcome})", check.command));
        }
        for (id, job) in jobs.iter().filter(|(_, job)| job.end.is_none()) {
            list.add(EntryGroup::Jobs, id, &job.title);
        }
        list.add_files(&workspace.files);
        for artifact in &workspace.artifacts {
            let path = artifact.path.as_ref().map(|path| format!(" in {}", path.display()));
            let value = format!("{}{}", artifact.kind, path.as_deref().unwrap_or(""));
            list.add(EntryGroup::Artifacts, &artifact.name, &value);
        }
        list.add_knowledge(knowledge);
        for (name, value) in extensions {
            list.add(EntryGroup::Extensions, name, &sorted(value).to_string());
        }
        list
    }

    fn add_task(&mut self, task: &TaskState) {
        let TaskState { objective, status, steps_completed, steps_total, current_step, todo } =
            task;
        if !objective.is_empty() {
            self.add_named(EntryGroup::Task, TASK_LABELS[0], objective);
        }
        let steps = match steps_total {
            0 => String::new(),
            total => format!(", {steps_completed} of {total} steps done"),
        };
        if *status != TaskStatus::NotStarted || !objective.is_empty() || *steps_total > 0 {
            let status = match status {
                TaskStatus::NotStarted => "not started",
                TaskStatus::InProgress => "in progress",
                TaskStatus::Completed => "completed",
                TaskStatus::Failed => "failed",
            };
            self.add_named(EntryGroup::Task, TASK_LABELS[1], &format!("{status}{steps}"));
        }
        if let Some(step) = current_step {
            self.add_named(EntryGroup::Task, TASK_LABELS[2], step);
        }
        for (index, item) in todo.iter().enumerate() {
            let status = match item.status {
                TodoStatus::Pending => "pending",
                TodoStatus::InProgress => "in progress",
                TodoStatus::Completed => "completed",
            };
            let value = format!("{} ({status})", shorten(&item.content, VALUE - 20));
            self.add(EntryGroup::Task, &(index + 1).to_string(), &value);
        }
    }

    fn add_system(&mut self, system: &SystemState) {
        let SystemState {
            working_directory,
            additional_directories,
            permissions,
            resources,
            idle_seconds,
        } = system;
        if !working_directory.as_os_str().is_empty() {
            let path = working_directory.display().to_string();
            self.add_named(EntryGroup::System, "working directory", &path);
        }
        let names: Vec<_> =
            additional_directories.iter().map(|path| path.display().to_string()).collect();
        if !names.is_empty() {
            self.add_named(EntryGroup::System, "also to be worked in", &names.join(", "));
        }
        if !permissions.is_empty() {
            self.add_named(EntryGroup::System, "permissions", &permissions.join("; "));
        }
        for (name, value) in resources {
            self.add_named(EntryGroup::System, name, value);
        }
        if let Some(seconds) = idle_seconds {
            self.add_named(EntryGroup::System, IDLE_LABEL, &coarse_time(*seconds));
        }
    }

    fn add_files(&mut self, files: &BTreeMap<String, FileInfo>) {
        for (path, file) in files {
            match file.foreign_change {
                Some(ForeignChange::Modified) => {
                    let value = "since you saw it, not by a call of yours: read it again";
                    self.add(EntryGroup::ChangedFiles, path, value);
                }
                Some(ForeignChange::Deleted) => {
                    self.add(EntryGroup::ChangedFiles, path, "deleted since you saw it");
                }
                None => {}
            }
        }
        for (path, _) in files.iter().filter(|(_, file)| file.dirty) {
            self.add(EntryGroup::DirtyFiles, path, "uncommitted changes");
        }
        let mut reads: Vec<_> = files.iter().filter(|(_, file)| file.last_read > 0).collect();
        reads.sort_by_key(|(path, file)| (std::cmp::Reverse(file.last_read), *path));
        for (path, file) in reads {
            let value = match file.lines {
                Some((first, last)) => format!("lines {first}-{last}"),
                None => "whole".to_owned(),
            };
            self.add(EntryGroup::ReadFiles, path, &value);
        }
    }

    fn add_knowledge(&mut self, knowledge: &KnowledgeBase) {
        let KnowledgeBase { discovered_facts, sources, key_concepts, extra: _ } = knowledge;
        for (index, fact) in discovered_facts.iter().enumerate() {
            self.add(EntryGroup::Knowledge, &format!("fact {}", index + 1), fact);
        }
        for (name, description) in sources {
            self.add(EntryGroup::Knowledge, &format!("source {name}"), description);
        }
        if !key_concepts.is_empty() {
            self.add(EntryGroup::Knowledge, "terms", &key_concepts.join(", "));
        }
    }

    /// Adds an entry with the prefix of its group before its label.
    fn add(&mut self, group: EntryGroup, label: &str, value: &str) {
        self.add_named(group, &format!("{}{label}", group.prefix()), value);
    }

    fn add_named(&mut self, group: EntryGroup, label: &str, value: &str) {
        let label = line_text(label, LABEL).replace(SEPARATOR, ":");
        let label = label.trim_start_matches('+').to_owned();
        let value = line_text(value, VALUE);
        if label.is_empty() || !self.labels.insert(label.clone()) {
            return;
        }
        let count = self.shown.iter().rev().take_while(|entry| entry.group == group).count();
        if count == group.most() {
            *self.hidden.entry(group).or_default() += 1;
        } else {
            self.shown.push(EnvironmentEntry { group, label, value });
        }
    }
}

/// Returns a text in one line of at most `most` bytes, without invisible characters and without marks.
fn line_text(text: &str, most: usize) -> String {
    // Cut first, so that a long text costs no more than a short one.
    let text = one_line(&shorten(text, most));
    shorten(&escape_tags(&text, &MARKS), most).trim().to_owned()
}

/// Returns a value with the keys of all its objects sorted, so that equal values give equal texts.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let pairs: BTreeMap<_, _> = map.iter().collect();
            let pairs = pairs.into_iter().map(|(key, value)| (key.clone(), sorted(value)));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Writes a time in its largest unit.
fn coarse_time(seconds: u64) -> String {
    let (count, unit) = match seconds {
        0..60 => (seconds, "second"),
        60..3_600 => (seconds / 60, "minute"),
        3_600..86_400 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}
