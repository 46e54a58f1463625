//! A session that an agent works in.

use std::path::PathBuf;

use crow_core::{
    event::{AgentEvent, AgentRole, Envelope, FORMAT_VERSION, ParentCall},
    history::History,
    ids::SessionId,
    model::{Abilities, ModelRef},
    usage::TokenUsage,
};
use serde_json::{Map, Value};

use super::{CrowMetadata, OpenedSession, SessionError, SessionLog, SessionMetadata};
use crate::RuntimeConfig;

/// What a new session is to be.
#[derive(Debug, Clone)]
pub struct SessionSpec {
    /// The agent's name.
    pub agent_type: String,
    /// The model.
    pub model: ModelRef,
    /// What the model can do.
    pub abilities: Abilities,
    /// The working directory, absolute and resolved.
    pub cwd: PathBuf,
    /// An id of the caller's choice, or a new one.
    pub id: Option<SessionId>,
    /// What the agent is to the others.
    pub role: AgentRole,
    /// What started the session, for a child.
    pub parent: Option<ParentCall>,
}

impl SessionSpec {
    /// Describes a root session of an agent.
    pub fn new(agent_type: impl Into<String>, model: ModelRef, cwd: impl Into<PathBuf>) -> Self {
        Self {
            agent_type: agent_type.into(),
            model,
            abilities: Abilities::default(),
            cwd: cwd.into(),
            id: None,
            role: AgentRole::Primary,
            parent: None,
        }
    }
}

/// A session that an agent works in: its header, its history and the one writer of its log.
#[derive(Debug)]
pub struct AgentSession {
    pub(crate) metadata: SessionMetadata,
    pub(crate) history: History,
    pub(crate) log: Box<dyn SessionLog>,
    pub(crate) abilities: Abilities,
    pub(crate) file_views: Vec<Value>,
    pub(crate) todo: Option<Value>,
}

impl AgentSession {
    /// Makes a new session. It is in the store when this returns. Blocks.
    pub fn create(config: &RuntimeConfig, spec: SessionSpec) -> Result<Self, SessionError> {
        let session_id = spec.id.unwrap_or_else(|| SessionId::new(config.ids.next_id()));
        let now = config.clock.now();
        let root_id = spec
            .parent
            .as_ref()
            .map_or_else(|| session_id.clone(), |parent| parent.session_id.clone());
        let mut metadata = SessionMetadata {
            session_id: session_id.clone(),
            agent_type: spec.agent_type.clone(),
            parent_session_id: spec.parent.as_ref().map(|parent| parent.session_id.clone()),
            parent_tool_use_id: spec.parent.as_ref().and_then(|parent| parent.call_id.clone()),
            child_session_ids: Vec::new(),
            model: spec.model.model.clone(),
            provider: spec.model.provider.clone(),
            created_at: now,
            updated_at: now,
            metadata: Map::new(),
        };
        metadata.set_crow(&CrowMetadata {
            format_version: FORMAT_VERSION,
            root_id: root_id.clone(),
            role: spec.role,
            cwd: spec.cwd.clone(),
            title: String::new(),
            turns: 0,
            usage: TokenUsage::default(),
        });
        let mut log = config.store.create(&metadata)?;
        let start = Envelope {
            seq: Some(1),
            time: now,
            session_id: session_id.clone(),
            root_id,
            agent: spec.agent_type,
            role: spec.role,
            parent: spec.parent,
            round: 0,
            event: AgentEvent::SessionStart {
                format_version: FORMAT_VERSION,
                model: spec.model.to_string(),
                cwd: spec.cwd,
            },
        };
        log.append(&start)?;
        let history = History::from_log([&start])
            .map_err(|source| SessionError::Inconsistent { id: session_id, source })?;
        Ok(Self {
            metadata,
            history,
            log,
            abilities: spec.abilities,
            file_views: Vec::new(),
            todo: None,
        })
    }

    /// Opens a session as its only writer. Blocks.
    pub fn open(
        config: &RuntimeConfig,
        id: &SessionId,
        abilities: Abilities,
    ) -> Result<Self, SessionError> {
        let OpenedSession { stored, log, torn_bytes } = config.store.open(id)?;
        if torn_bytes > 0 {
            tracing::warn!(session = %id, torn_bytes, "the last line of the log was torn and was cut off");
        }
        let inconsistent = |source| SessionError::Inconsistent { id: id.clone(), source };
        let history = History::from_log(&stored.events).map_err(inconsistent)?;
        let extras = || history.results().map(|(_, result)| &result.metadata.extra);
        let file_views = extras()
            .filter(|extra| extra.get(crow_core::file_views::FileViews::EXTRA_KEY).is_some())
            .cloned()
            .collect();
        let todo = extras().filter_map(|extra| extra.get("todos")).last().cloned();
        Ok(Self { metadata: stored.metadata, history, log, abilities, file_views, todo })
    }

    /// Returns the session's id.
    pub fn id(&self) -> &SessionId {
        &self.metadata.session_id
    }

    /// Returns the header.
    pub fn metadata(&self) -> &SessionMetadata {
        &self.metadata
    }

    /// Returns the history.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Sets the model that the session goes on with.
    pub fn set_model(&mut self, model: &ModelRef, abilities: Abilities) {
        self.metadata.model.clone_from(&model.model);
        self.metadata.provider.clone_from(&model.provider);
        self.abilities = abilities;
    }
}
