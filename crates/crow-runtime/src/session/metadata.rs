//! A session's header.

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
    /// When the session began.
    pub created_at: Timestamp,
    /// When something last happened in it.
    pub updated_at: Timestamp,
    /// Free for programs; ours is under `crow`.
    pub metadata: Map<String, Value>,
}

/// What Crow keeps under `metadata.crow`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CrowMetadata {
    /// The version of the log's format.
    pub format_version: u32,
    /// The root session.
    pub root_id: SessionId,
    /// What the agent is to the others.
    pub role: AgentRole,
    /// The working directory.
    pub cwd: PathBuf,
    /// The folders beside it in which the agent works as well, absolute and resolved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_directories: Vec<PathBuf>,
    /// A few words for lists: the beginning of the first prompt.
    #[serde(default)]
    pub title: String,
    /// Turns so far.
    #[serde(default)]
    pub turns: u32,
    /// Tokens so far.
    #[serde(default)]
    pub usage: TokenUsage,
    /// What each model was asked for so far, by this agent and by those below it. Of a root session alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spent: Vec<ModelUsage>,
    /// The files before the first call that could change them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_snapshot: Option<SnapshotId>,
    /// The files after the last call that could change them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_snapshot: Option<SnapshotId>,
    /// What was allowed for the rest of the session up to this event was taken back since.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub grants_forgotten: u64,
    /// What happens in this session to calls of which no rule speaks; none where the configuration says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<PermissionMode>,
    /// The agent that the session was opened with, for a root session of a product.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_with: Option<OpenedWith>,
    /// The header was made from a log of an older version, which does not tell with what the session was opened: whoever
    /// opens it names an agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agent_lost: bool,
    /// The header on the disk is lost or damaged, and this one was made from the log. Never set on the disk.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rebuilt: bool,
}

/// What a model was asked for.
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

const CROW: &str = "crow";
/// The most characters of a title.
const TITLE: usize = 80;

impl CrowMetadata {
    /// Makes the metadata of a session in which nothing happened yet.
    pub(super) fn new(
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

    /// Returns what the session goes on with when it is opened again.
    pub(crate) fn settings(&self) -> SessionSettings {
        SessionSettings {
            opened_with: self.opened_with.clone(),
            permissions: self.permissions,
            additional_directories: self.additional_directories.clone(),
        }
    }

    /// Sets what the session goes on with to what its log tells last, or to what is left where it tells nothing.
    ///
    /// Nothing is permitted by it that may have been taken back since: a mode in which something passes that changes files
    /// becomes one that asks, and where no mode is told only reads pass.
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

    /// Keeps the agent that the session goes on with.
    pub(crate) fn set_opened_with(&mut self, with: OpenedWith) {
        self.opened_with = Some(with);
        self.agent_lost = false;
    }

    /// Returns the folders that the session works in: its working directory first.
    pub fn workspace(&self) -> Workspace {
        let main = Workspace::new(&self.cwd);
        self.additional_directories.iter().fold(main, Workspace::with_root)
    }
}

/// The key `crow` of a session's metadata is not for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key `crow` is taken")]
pub struct ReservedKey;

impl SessionMetadata {
    /// Returns what Crow keeps, or what it would keep for a session of somebody else's.
    pub fn crow(&self) -> CrowMetadata {
        self.own().unwrap_or_else(|| {
            let (root, role) = (self.session_id.clone(), AgentRole::Primary);
            CrowMetadata::new(FORMAT_VERSION, root, role, PathBuf::new())
        })
    }

    /// Returns whether the header is whole: that of this session, with what Crow keeps in it.
    pub(super) fn is_whole(&self, id: &SessionId) -> bool {
        self.session_id == *id && self.own().is_some()
    }

    /// Returns whether nothing was said in the session: it has neither prompts nor a title.
    pub fn is_unused(&self) -> bool {
        self.own().is_some_and(|crow| {
            let is_empty = crow.title.is_empty() && crow.turns == 0 && !crow.rebuilt;
            is_empty && crow.initial_snapshot.is_none() && self.child_session_ids.is_empty()
        })
    }

    fn own(&self) -> Option<CrowMetadata> {
        self.metadata.get(CROW).and_then(|value| CrowMetadata::deserialize(value).ok())
    }

    /// Puts a value of the program's own. Fails for the key under which Crow keeps its own.
    pub fn set(&mut self, key: &str, value: Value) -> Result<(), ReservedKey> {
        if key == CROW {
            return Err(ReservedKey);
        }
        self.metadata.insert(key.to_owned(), value);
        Ok(())
    }

    /// Puts what Crow keeps.
    pub fn set_crow(&mut self, crow: &CrowMetadata) {
        if let Ok(value) = serde_json::to_value(crow) {
            self.metadata.insert(CROW.to_owned(), value);
        }
    }

    /// Keeps a permission mode for the session, or leaves it to the configuration.
    pub(crate) fn set_permission_mode(&mut self, mode: Option<PermissionMode>) {
        self.set_crow(&CrowMetadata { permissions: mode, ..self.crow() });
    }

    /// Makes a header from what a log says. What the header alone knew is gone, and nothing that was allowed for the rest of
    /// the session holds any more, since it may have been taken back.
    pub(super) fn from_log(events: &[Envelope]) -> Option<Self> {
        let (first, last) = (events.first()?, events.last()?);
        let AgentEvent::SessionStart { format_version, model, cwd, .. } = &first.event else {
            return None;
        };
        let reference = last_model(events).or_else(|| model.parse().ok())?;
        let mut metadata = Self {
            session_id: first.session_id.clone(),
            // It may have gone on as another one.
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

    /// Returns the model's reference.
    pub fn model_ref(&self) -> ModelRef {
        ModelRef { provider: self.provider.clone(), model: self.model.clone() }
    }

    /// Returns the program's own values.
    pub(crate) fn own_values(&self) -> Map<String, Value> {
        let own = self.metadata.iter().filter(|(key, _)| *key != CROW);
        own.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Returns what started the session, for a child.
    pub fn parent(&self) -> Option<ParentCall> {
        let session_id = self.parent_session_id.clone()?;
        Some(ParentCall { session_id, call_id: self.parent_tool_use_id.clone() })
    }
}

/// Returns the title of a session that begins with that prompt: its first line that says something, or that it is a picture.
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

/// Returns what the session was opened with last.
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

/// Returns the model that was asked last or changed to since.
fn last_model(events: &[Envelope]) -> Option<ModelRef> {
    events.iter().rev().find_map(|line| {
        if let AgentEvent::Reply { origin, .. } = &line.event {
            return Some(model_of(origin));
        }
        let AgentEvent::Switch { change } = &line.event else { return None };
        change.strip_prefix("model: ")?.split_once(" -> ")?.1.parse().ok()
    })
}
