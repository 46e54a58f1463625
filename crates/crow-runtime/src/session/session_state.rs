//! State restored from a session beyond its history: tool state, grants, usage and snapshots.

use std::{path::PathBuf, sync::Mutex};

use crow_core::{
    capability::PermissionAnswer,
    event::{AgentEvent, Envelope},
    file_views::FileViews,
    history::History,
    ids::SnapshotId,
    message::Origin,
    model::ModelRef,
    permission::Grant,
    resource_map::ResourceMap,
    todo::TodoList,
    usage::TokenUsage,
    workspace::ShellFolder,
};
use serde_json::Value;

use super::{ModelUsage, RootSession, SessionMetadata, SessionStore};

/// The state of a session's tools, as recorded in their results.
#[derive(Debug, Default)]
pub(crate) struct ToolState {
    pub(crate) file_views: FileViews,
    pub(crate) todo: Mutex<TodoList>,
    pub(crate) resources: ResourceMap,
}

impl ToolState {
    /// Restores the state from the results in a history; later ones win.
    pub(crate) fn from_history(history: &History) -> Self {
        let state = Self::default();
        let (mut todo, mut shell_folder) = (None, None);
        for (_, metadata) in history.results() {
            let extra = &metadata.extra;
            state.file_views.restore(extra);
            todo = extra.get("todos").cloned().or(todo);
            let folder = extra.get(ShellFolder::EXTRA_KEY).and_then(Value::as_str);
            shell_folder = folder.map(str::to_owned).or(shell_folder);
        }
        if let Some(folder) = shell_folder {
            state.resources.insert(ShellFolder(PathBuf::from(folder)));
        }
        let todo = todo.and_then(|items| serde_json::from_value(items).ok());
        let todo = todo.and_then(|items| TodoList::new(items).ok()).unwrap_or_default();
        Self { todo: Mutex::new(todo), ..state }
    }
}

/// Returns the model that produced a reply.
pub(crate) fn model_of(origin: &Origin) -> ModelRef {
    ModelRef { provider: origin.provider.clone(), model: origin.model.clone() }
}

/// Token usage per model. A short list.
#[derive(Debug, Clone, Default)]
pub(crate) struct UsageByModel(Vec<(ModelRef, TokenUsage)>);

/// Snapshots of the files that all agents of a tree work on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TreeSnapshots {
    /// Before the first call that could change files.
    pub(crate) initial: Option<SnapshotId>,
    /// After the last call that could change files.
    pub(crate) current: Option<SnapshotId>,
}

impl UsageByModel {
    /// Adds the usage recorded in a log.
    pub(crate) fn add_log(&mut self, events: &[Envelope]) {
        let mut model = None;
        for event in events {
            // The usage of a reply directly follows it.
            if let AgentEvent::Reply { origin, .. } = &event.event {
                model = Some(model_of(origin));
            }
            if let AgentEvent::Usage { usage, .. } = &event.event
                && let Some(model) = model.take()
            {
                self.add(model, *usage);
            }
        }
    }

    /// Returns the usage for a session header.
    pub(crate) fn to_header(&self) -> Vec<ModelUsage> {
        let spent = self.0.iter().cloned();
        spent.map(|(model, usage)| ModelUsage { model, usage }).collect()
    }

    /// Returns the usage of each model.
    pub(crate) fn to_vec(&self) -> Vec<(ModelRef, TokenUsage)> {
        self.0.clone()
    }

    pub(crate) fn add(&mut self, model: ModelRef, usage: TokenUsage) {
        match self.0.iter_mut().find(|(known, _)| *known == model) {
            Some((_, sum)) => *sum += usage,
            None => self.0.push((model, usage)),
        }
    }
}

/// State shared by all sessions of one root, collected from their logs.
#[derive(Debug, Default)]
pub(crate) struct RootSessionState {
    /// The ids of all sessions below the root.
    pub(crate) descendants: Vec<crow_core::ids::SessionId>,
    /// Permissions granted for the rest of the session.
    pub(crate) grants: Vec<Grant>,
    /// Token usage per model.
    pub(crate) spent: UsageByModel,
    /// Snapshot before the first call that could change files, and after the last one.
    pub(crate) snapshots: TreeSnapshots,
    /// The event numbers of these two calls.
    snapshots_at: Option<(u64, u64)>,
    /// The highest event number in any of the logs, since the counter is shared.
    last_seq: u64,
    /// Grants given up to this event number are revoked.
    forgotten: u64,
}

impl RootSessionState {
    /// Collects the state from the events of the root and the logs of its descendants; a session that cannot be read is
    /// left out. Blocks.
    pub(crate) fn read(
        store: &dyn SessionStore,
        metadata: &SessionMetadata,
        events: &[Envelope],
    ) -> Self {
        let mut family = Self { forgotten: metadata.crow().grants_forgotten, ..Self::default() };
        family.take(events);
        let mut pending = metadata.child_session_ids.clone();
        while let Some(id) = pending.pop() {
            if family.descendants.contains(&id) {
                continue;
            }
            match store.read(&id) {
                Ok(stored) => {
                    family.take(&stored.events);
                    pending.extend(stored.metadata.child_session_ids);
                    family.descendants.push(id);
                }
                Err(error) => tracing::warn!(session = %id, %error, "a child session is left out"),
            }
        }
        family
    }

    /// Returns the handle of the root with its event counter.
    pub(crate) fn root(&self, metadata: &SessionMetadata) -> RootSession {
        RootSession::new(metadata.crow().root_id, self.last_seq)
    }

    fn take_snapshots(&mut self, event: &Envelope) {
        let AgentEvent::CallEnd { result, .. } = &event.event else { return };
        let (Some(seq), metadata) = (event.seq, &result.metadata) else { return };
        // Logs are read one after the other, so the first and last call are found by event number.
        let (first, last) = self.snapshots_at.unwrap_or((u64::MAX, 0));
        if let Some(before) = &metadata.snapshot_before
            && seq < first
        {
            self.snapshots.initial = Some(before.clone());
            self.snapshots_at = Some((seq, last));
        }
        if let Some(after) = &metadata.snapshot_after
            && seq > last
        {
            self.snapshots.current = Some(after.clone());
            self.snapshots_at = Some((seq.min(first), seq));
        }
    }

    fn take(&mut self, events: &[Envelope]) {
        self.spent.add_log(events);
        for event in events {
            self.last_seq = self.last_seq.max(event.seq.unwrap_or(0));
            self.take_snapshots(event);
            let AgentEvent::PermissionDecision { answer, .. } = &event.event else { continue };
            if let PermissionAnswer::AllowSession { grants } = answer
                && event.seq > Some(self.forgotten)
            {
                self.grants.extend(grants.iter().cloned());
            }
        }
    }
}
