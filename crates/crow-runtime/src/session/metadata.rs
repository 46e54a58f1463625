//! The header of a session.

use std::path::PathBuf;

use crow_core::{
    event::{AgentEvent, AgentRole, Envelope, FORMAT_VERSION, InputSource, ParentCall},
    history::History,
    ids::{CallId, SessionId, SnapshotId},
    message::Block,
    model::ModelRef,
    permission::PermissionMode,
    settings::{OpenedWith, SessionSettings},
    usage::TokenUsage,
    workspace::Workspace,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::model_of;

/// A session's header: exactly the keys of `metadata.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionMetadata {
    /// The session.
    pub session_id: SessionId,
    /// The agent's name.
    pub agent_type: String,
    /// The session of the agent that started this one.
    pub parent_session_id: Option<SessionId>,
    /// The call that started this one.
    pub parent_tool_use_id: Option<CallId>,
    /// The sessions that this one started.
    pub child_session_ids: Vec<SessionId>,
    /// The model.
    pub model: String,
    /// The provider.
    pub provider: String,
    /// Time of the first event.
    pub created_at: Timestamp,
    /// Time of the last update.
    pub updated_at: Timestamp,
    /// Values of the embedding program; Crow's own are under the key `crow`.
    pub metadata: Map<String, Value>,
}

/// Crow's own data, under `metadata.crow`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CrowMetadata {
    /// The version of the log's format.
    pub format_version: u32,
    /// The root session.
    pub root_id: SessionId,
    /// The role of the agent.
    pub role: AgentRole,
    /// The working directory.
    pub cwd: PathBuf,
    /// Additional working directories, absolute and resolved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_directories: Vec<PathBuf>,
    /// A short title for lists: the beginning of the first prompt.
    #[serde(default)]
    pub title: String,
    /// Number of turns so far.
    #[serde(default)]
    pub turns: u32,
    /// Tokens so far.
    #[serde(default)]
    pub usage: TokenUsage,
    /// Usage per model of this agent and its descendants. Only in root sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spent: Vec<ModelUsage>,
    /// Snapshot before the first call that could change files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_snapshot: Option<SnapshotId>,
    /// Snapshot after the last call that could change files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_snapshot: Option<SnapshotId>,
    /// Number of the last event up to which permissions granted for the session have been revoked.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub grants_forgotten: u64,
    /// Permission mode for calls that no rule matches; `None` uses the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<PermissionMode>,
    /// The agent the session was opened with, for root sessions of a product with several agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_with: Option<OpenedWith>,
    /// True if the header was rebuilt from a log of an older version, which does not record `opened_with`: an agent
    /// must be named when the session is opened.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agent_lost: bool,
    /// True if the header on disk is lost or damaged and this one was rebuilt from the log. Never set on disk.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rebuilt: bool,
}

/// Token usage of one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// The model.
    pub model: ModelRef,
    /// The tokens.
    pub usage: TokenUsage,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

pub(super) const CROW: &str = "crow";
/// Maximum number of characters of a title.
const TITLE: usize = 80;

impl CrowMetadata {
    /// Creates the metadata of a session without events.
    pub(crate) fn new(
        format_version: u32,
        root_id: SessionId,
        role: AgentRole,
        cwd: PathBuf,
    ) -> Self {
        Self {
            format_version,
            root_id,
            role,
            cwd,
            additional_directories: Vec::new(),
            title: String::new(),
            turns: 0,
            usage: TokenUsage::default(),
            spent: Vec::new(),
            initial_snapshot: None,
            current_snapshot: None,
            grants_forgotten: 0,
            permissions: None,
            opened_with: None,
            agent_lost: false,
            rebuilt: false,
        }
    }

    /// Returns the settings that the session continues with when it is opened again.
    pub(crate) fn settings(&self) -> SessionSettings {
        SessionSettings {
            opened_with: self.opened_with.clone(),
            permissions: self.permissions,
            additional_directories: self.additional_directories.clone(),
        }
    }

    /// Restores the settings last recorded in the log; without any, marks the agent as lost.
    ///
    /// Must not permit anything that may have been revoked since: every mode that lets file changes pass becomes `Ask`,
    /// and without a recorded mode only reads pass.
    fn restore(&mut self, settings: Option<SessionSettings>) {
        let Some(settings) = settings else {
            self.agent_lost = true;
            self.permissions = Some(PermissionMode::ReadOnly);
            return;
        };
        self.opened_with = settings.opened_with;
        self.additional_directories = settings.additional_directories;
        self.permissions = settings.permissions.map(|mode| match mode {
            PermissionMode::ReadOnly => PermissionMode::ReadOnly,
            PermissionMode::Ask | PermissionMode::AcceptEdits | PermissionMode::FullAuto => {
                PermissionMode::Ask
            }
        });
    }

    /// Records the agent that the session continues with.
    pub(crate) fn set_opened_with(&mut self, with: OpenedWith) {
        self.opened_with = Some(with);
        self.agent_lost = false;
    }

    /// Returns the workspace of the session, with its working directory as the first root.
    pub fn workspace(&self) -> Workspace {
        let main = Workspace::new(&self.cwd);
        self.additional_directories.iter().fold(main, Workspace::with_root)
    }
}

/// Error: the key `crow` of a session's metadata is reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key `crow` is taken")]
pub struct ReservedKey;

impl SessionMetadata {
    /// Returns Crow's own data, or defaults for a session written by another program.
    pub fn crow(&self) -> CrowMetadata {
        self.parse_crow().unwrap_or_else(|| {
            let (root, role) = (self.session_id.clone(), AgentRole::Primary);
            CrowMetadata::new(FORMAT_VERSION, root, role, PathBuf::new())
        })
    }

    /// Returns true if the header belongs to this session and contains Crow's own data.
    pub(super) fn is_valid(&self, id: &SessionId) -> bool {
        self.session_id == *id && self.parse_crow().is_some()
    }

    /// Returns true if the session was never used: it has no turns, title, snapshot or children, and was not rebuilt.
    pub fn is_unused(&self) -> bool {
        self.parse_crow().is_some_and(|crow| {
            let is_empty = crow.title.is_empty() && crow.turns == 0 && !crow.rebuilt;
            is_empty && crow.initial_snapshot.is_none() && self.child_session_ids.is_empty()
        })
    }

    fn parse_crow(&self) -> Option<CrowMetadata> {
        self.metadata.get(CROW).and_then(|value| CrowMetadata::deserialize(value).ok())
    }

    /// Sets a value of the embedding program. Fails for the key that Crow uses.
    pub fn set(&mut self, key: &str, value: Value) -> Result<(), ReservedKey> {
        if key == CROW {
            return Err(ReservedKey);
        }
        self.metadata.insert(key.to_owned(), value);
        Ok(())
    }

    /// Replaces Crow's own data.
    pub fn set_crow(&mut self, crow: &CrowMetadata) {
        if let Ok(value) = serde_json::to_value(crow) {
            self.metadata.insert(CROW.to_owned(), value);
        }
    }

    /// Stores the permission mode of the session; `None` leaves it to the configuration.
    pub(crate) fn set_permission_mode(&mut self, mode: Option<PermissionMode>) {
        self.set_crow(&CrowMetadata { permissions: mode, ..self.crow() });
    }

    /// Rebuilds a header from a log. Data that only the header had is lost, and permissions granted for the rest of the
    /// session are revoked, since they may have been revoked before.
    pub(super) fn from_log(events: &[Envelope]) -> Option<Self> {
        let (first, last) = (events.first()?, events.last()?);
        let AgentEvent::SessionStart { format_version, model, cwd, .. } = &first.event else {
            return None;
        };
        let reference = last_model(events).or_else(|| model.parse().ok())?;
        let mut metadata = Self {
            session_id: first.session_id.clone(),
            // The agent may have been switched since the first event.
            agent_type: last.agent.clone(),
            parent_session_id: first.parent.as_ref().map(|parent| parent.session_id.clone()),
            parent_tool_use_id: first.parent.as_ref().and_then(|parent| parent.call_id.clone()),
            child_session_ids: Vec::new(),
            model: reference.model,
            provider: reference.provider,
            created_at: first.time,
            updated_at: last.time,
            metadata: Map::new(),
        };
        let mut crow =
            CrowMetadata::new(*format_version, first.root_id.clone(), first.role, cwd.clone());
        crow.rebuilt = true;
        // Only root sessions have settings.
        if first.parent.is_none() {
            crow.restore(last_settings(events));
        }
        crow.title = events.iter().find_map(prompt_title).unwrap_or_default();
        if let Ok(history) = History::from_log(events) {
            let (initial, current) = history.snapshots();
            crow.turns = history.turns();
            crow.usage = history.usage();
            crow.initial_snapshot = initial.cloned();
            crow.current_snapshot = current.cloned();
        }
        crow.grants_forgotten = events.iter().filter_map(|event| event.seq).max().unwrap_or(0);
        metadata.set_crow(&crow);
        Some(metadata)
    }

    /// Returns the reference of the model.
    pub fn model_ref(&self) -> ModelRef {
        ModelRef { provider: self.provider.clone(), model: self.model.clone() }
    }

    /// Returns the values of the embedding program.
    pub(crate) fn own_values(&self) -> Map<String, Value> {
        let values = self.metadata.iter().filter(|(key, _)| *key != CROW);
        values.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Returns the call that started the session, for a child.
    pub fn parent(&self) -> Option<ParentCall> {
        let session_id = self.parent_session_id.clone()?;
        Some(ParentCall { session_id, call_id: self.parent_tool_use_id.clone() })
    }
}

/// Returns the title for a session with this first prompt: its first non-empty line, or `(picture)`.
pub(crate) fn title_of(content: &[Block]) -> Option<String> {
    let line = content.iter().find_map(|block| match block {
        Block::Text { text } => text.lines().map(str::trim).find(|line| !line.is_empty()),
        Block::Image(_) => None,
    });
    let is_picture = || content.iter().any(|block| matches!(block, Block::Image(_)));
    let line = line.or_else(|| is_picture().then_some("(picture)"));
    line.map(|line| line.chars().take(TITLE).collect())
}

fn prompt_title(line: &Envelope) -> Option<String> {
    let AgentEvent::UserInput {
        source: InputSource::Prompt | InputSource::Steering, content, ..
    } = &line.event
    else {
        return None;
    };
    title_of(content)
}

/// Returns the settings that were recorded last.
fn last_settings(events: &[Envelope]) -> Option<SessionSettings> {
    events.iter().rev().find_map(|line| {
        let (AgentEvent::SessionStart { settings, .. } | AgentEvent::RunStart { settings, .. }) =
            &line.event
        else {
            return None;
        };
        settings.as_deref().cloned()
    })
}

/// Returns the model of the last reply, or of a later switch.
fn last_model(events: &[Envelope]) -> Option<ModelRef> {
    events.iter().rev().find_map(|line| {
        if let AgentEvent::Reply { origin, .. } = &line.event {
            return Some(model_of(origin));
        }
        let AgentEvent::Switch { change } = &line.event else { return None };
        change.strip_prefix("model: ")?.split_once(" -> ")?.1.parse().ok()
    })
}
