//! A session that is open for an agent.

use std::{path::PathBuf, sync::Arc};

use crow_core::{
    capability::PermissionAnswer,
    event::{AgentEvent, AgentRole, Envelope, FORMAT_VERSION, ParentCall},
    history::History,
    ids::SessionId,
    model::{Abilities, ModelRef},
    permission::{PermissionMode, PermissionPolicy, RuleSet, SandboxPaths},
    settings::OpenedWith,
};
use serde_json::Map;

use crate::{
    SandboxConfig,
    config::RuntimeConfig,
    rule_links::{add_resolved, resolve_rules},
    session::{
        CrowMetadata, Damage, OpenedSession, RootSession, RootSessionState, SessionError,
        SessionLog, SessionMetadata, StoredSession, ToolState,
    },
    undo::snapshots_of,
};

/// Parameters of a new session.
#[derive(Debug, Clone)]
pub struct SessionSpec {
    /// The agent's name.
    pub agent_type: String,
    /// The model.
    pub model: ModelRef,
    /// The abilities of the model.
    pub abilities: Abilities,
    /// The working directory, absolute and resolved.
    pub cwd: PathBuf,
    /// Additional working directories, absolute and resolved.
    pub additional_directories: Vec<PathBuf>,
    /// An id chosen by the caller; `None` generates one.
    pub id: Option<SessionId>,
    /// The role of the agent.
    pub role: AgentRole,
    /// The call that started the session, for a child.
    pub parent: Option<ParentCall>,
    /// The root that a child belongs to; `None` for a root.
    pub root: Option<RootSession>,
    /// The permission mode of the session, for calls that no rule matches; `None` uses the configuration.
    pub permissions: Option<PermissionMode>,
    /// The agent and choices that the session is opened with, where the product has several agents.
    pub opened_with: Option<OpenedWith>,
}

impl SessionSpec {
    /// Describes a root session of an agent.
    pub fn new(agent_type: impl Into<String>, model: ModelRef, cwd: impl Into<PathBuf>) -> Self {
        Self {
            agent_type: agent_type.into(),
            model,
            abilities: Abilities::default(),
            cwd: cwd.into(),
            additional_directories: Vec::new(),
            id: None,
            role: AgentRole::Primary,
            parent: None,
            root: None,
            permissions: None,
            opened_with: None,
        }
    }
}

/// A session open for an agent: its header, its history and the only writer of its log.
#[derive(Debug)]
pub struct AgentSession {
    pub(crate) metadata: SessionMetadata,
    pub(crate) history: History,
    pub(crate) log: Box<dyn SessionLog>,
    pub(crate) root: RootSession,
    pub(crate) abilities: Abilities,
    torn_bytes: usize,
    damage: Damage,
    pub(crate) root_state: RootSessionState,
    pub(crate) tools: ToolState,
    /// The policy that a root agent starts with.
    pub(crate) policy: PermissionPolicy,
    /// Files that commands must not change, in addition to those of the configuration.
    pub(crate) protected_files: Vec<PathBuf>,
}

impl AgentSession {
    /// Creates a new session; it is in the store when this returns. Blocks.
    pub fn create(config: &RuntimeConfig, spec: SessionSpec) -> Result<Self, SessionError> {
        Self::create_with_callback(config, spec, drop)
    }

    /// Creates a new session and passes its first event to `on_start` before another one of the same root is written.
    /// Blocks.
    pub(crate) fn create_with_callback(
        config: &RuntimeConfig,
        spec: SessionSpec,
        on_start: impl FnOnce(Arc<Envelope>),
    ) -> Result<Self, SessionError> {
        let session_id = spec.id.unwrap_or_else(|| SessionId::new(config.ids.next_id()));
        let _span = tracing::debug_span!("create_session", session = %session_id).entered();
        let now = config.clock.now();
        let root = spec.root.unwrap_or_else(|| RootSession::new(session_id.clone(), 0));
        // 1) Header and policy.
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
        let (root_id, cwd) = (root.id().clone(), spec.cwd.clone());
        let crow = CrowMetadata {
            additional_directories: spec.additional_directories,
            permissions: spec.permissions,
            opened_with: spec.opened_with,
            ..CrowMetadata::new(FORMAT_VERSION, root_id, spec.role, cwd)
        };
        metadata.set_crow(&crow);
        if metadata.parent_session_id.is_none() {
            remove_leftovers(config, &crow);
        }
        let policy = policy(config, &crow);
        // 2) Log with its first event; a session that cannot be completed is removed.
        let mut log = config.store.create(&metadata)?;
        let event = AgentEvent::SessionStart {
            format_version: FORMAT_VERSION,
            model: spec.model.to_string(),
            cwd: spec.cwd,
            // A child uses the settings of its root.
            settings: metadata.parent_session_id.is_none().then(|| Box::new(crow.settings())),
        };
        let mut start = Envelope {
            seq: None,
            time: now,
            session_id: session_id.clone(),
            root_id: root.id().clone(),
            agent: spec.agent_type,
            role: spec.role,
            parent: spec.parent,
            round: 0,
            event,
        };
        let result = root.with_next_seq(|seq| {
            start.seq = Some(seq);
            log.append(&start)?;
            on_start(Arc::new(start.clone()));
            Ok(())
        });
        if let Err(error) = result {
            drop(log);
            remove_incomplete(config, &session_id);
            return Err(error);
        }
        let history = History::from_log([&start])
            .map_err(|source| SessionError::Inconsistent { id: session_id, source })?;
        tracing::debug!("session created");
        Ok(Self {
            metadata,
            history,
            log,
            root,
            abilities: spec.abilities,
            torn_bytes: 0,
            damage: Damage::default(),
            root_state: RootSessionState::default(),
            tools: ToolState::default(),
            policy,
            protected_files: Vec::new(),
        })
    }

    /// Creates a new session with the history of another one, which may be in use, and opens it. Blocks.
    ///
    /// Child sessions stay with the original, and so do permissions granted for the rest of it. Calls and replies that
    /// are
    /// open in it are open in the copy too, until its agent closes them.
    #[tracing::instrument(level = "debug", name = "fork_session", skip_all, fields(session = %id))]
    pub fn fork(
        config: &RuntimeConfig,
        id: &SessionId,
        abilities: Abilities,
    ) -> Result<Self, SessionError> {
        let StoredSession { mut metadata, events, .. } = config.store.read(id)?;
        let fork = SessionId::new(config.ids.next_id());
        metadata.session_id = fork.clone();
        metadata.parent_session_id = None;
        metadata.parent_tool_use_id = None;
        metadata.child_session_ids.clear();
        metadata.created_at = config.clock.now();
        metadata.updated_at = metadata.created_at;
        let mut crow = metadata.crow();
        crow.root_id = fork.clone();
        crow.role = AgentRole::Primary;
        metadata.set_crow(&crow);
        let undos = config.store.undos(id)?;
        // The copy needs its own references to the snapshots, which live as long as a session refers to them.
        let snapshots = snapshots_of(&events, &undos);
        let copies = events.into_iter().map(|mut event| {
            allow_once(&mut event.event);
            let (session_id, root_id) = (fork.clone(), fork.clone());
            let role = AgentRole::Primary;
            Envelope { session_id, root_id, role, parent: None, ..event }
        });
        config.store.add(&metadata, &copies.collect::<Vec<_>>())?;
        if let Err(error) = undos.iter().try_for_each(|undo| config.store.add_undo(&fork, undo)) {
            remove_incomplete(config, &fork);
            return Err(error);
        }
        if let Some(stores) = &config.snapshots {
            stores.add_references(&crow.cwd, &fork, &snapshots);
        }
        Self::open(config, &fork, abilities)
    }

    /// Opens a root session as its only writer. Blocks.
    #[tracing::instrument(level = "debug", name = "open_session", skip_all, fields(session = %id))]
    pub fn open(
        config: &RuntimeConfig,
        id: &SessionId,
        abilities: Abilities,
    ) -> Result<Self, SessionError> {
        let mut opened = config.store.open(id)?;
        let metadata = &opened.stored.metadata;
        if metadata.parent_session_id.is_some() {
            // A second event counter for the same root would assign each number twice.
            let root = metadata.crow().root_id;
            return Err(SessionError::IsChild { id: id.clone(), root });
        }
        let history = fold(&mut opened)?;
        let StoredSession { metadata, events, .. } = &opened.stored;
        remove_leftovers(config, &metadata.crow());
        let family = RootSessionState::read(config.store.as_ref(), metadata, events);
        let root = family.root(metadata);
        if opened.stored.damage.is_none() {
            // Lets the next reader of the session skip reading the log again.
            opened.log.cache_events(std::mem::take(&mut opened.stored.events));
        }
        Ok(Self {
            root_state: family,
            ..Self::with_history(config, opened, history, root, abilities)
        })
    }

    /// Opens the session of a child as its only writer, below a root that is open. Blocks.
    #[tracing::instrument(level = "debug", name = "open_session", skip_all, fields(session = %id))]
    pub(crate) fn open_child(
        config: &RuntimeConfig,
        id: &SessionId,
        root: RootSession,
        abilities: Abilities,
    ) -> Result<Self, SessionError> {
        let mut opened = config.store.open(id)?;
        let history = fold(&mut opened)?;
        Ok(Self::with_history(config, opened, history, root, abilities))
    }

    fn with_history(
        config: &RuntimeConfig,
        opened: OpenedSession,
        history: History,
        root: RootSession,
        abilities: Abilities,
    ) -> Self {
        let OpenedSession { stored, log, torn_bytes } = opened;
        tracing::debug!(turns = history.turns(), "session opened");
        let StoredSession { metadata, damage, .. } = stored;
        if torn_bytes > 0 {
            let id = &metadata.session_id;
            tracing::warn!(session = %id, torn_bytes, "the last line of the log was incomplete and was removed");
        }
        let tools = ToolState::from_history(&history);
        let policy = policy(config, &metadata.crow());
        Self {
            metadata,
            history,
            log,
            root,
            abilities,
            torn_bytes,
            damage,
            root_state: RootSessionState::default(),
            tools,
            policy,
            protected_files: Vec::new(),
        }
    }

    /// Sets the title of a root session that no agent has open. Blocks.
    pub fn rename(config: &RuntimeConfig, id: &SessionId, title: &str) -> Result<(), SessionError> {
        let OpenedSession { mut stored, mut log, .. } = config.store.open(id)?;
        let mut crow = stored.metadata.crow();
        if stored.metadata.parent_session_id.is_some() {
            return Err(SessionError::IsChild { id: id.clone(), root: crow.root_id });
        }
        title.clone_into(&mut crow.title);
        stored.metadata.set_crow(&crow);
        log.save_metadata(&stored.metadata)
    }

    /// Returns the session's id.
    pub fn id(&self) -> &SessionId {
        &self.metadata.session_id
    }

    /// Returns the session header.
    pub fn metadata(&self) -> &SessionMetadata {
        &self.metadata
    }

    /// Returns the session history.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns the number of bytes of a torn last line that were cut off when the session was opened.
    pub fn torn_bytes(&self) -> usize {
        self.torn_bytes
    }

    /// Returns the damage found when the session was opened.
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    /// Adds rules for this session to those of the configuration. They are not persisted: they must be added again each
    /// time the session is opened. Blocks.
    pub fn add_rules(&mut self, rules: RuleSet) {
        let workspace = self.metadata.crow().workspace();
        self.policy = add_resolved(std::mem::take(&mut self.policy), rules, &workspace);
    }

    /// Forbids commands and tools of this session to change these files without asking, in addition to those of the
    /// configuration. Not persisted: they must be named again each time the session is opened.
    pub fn protect_files(&mut self, files: Vec<PathBuf>) {
        let places = SandboxPaths { protected: files.clone(), ..SandboxPaths::default() };
        self.policy.add_places(places);
        self.protected_files.extend(files);
    }

    /// Stores a permission mode in the session header; `None` leaves it to the configuration. Blocks.
    ///
    /// A mode that the user chose must be set before the agent is spawned; otherwise the mode stored earlier in the
    /// session
    /// applies.
    pub fn set_permission_mode(
        &mut self,
        mode: Option<PermissionMode>,
    ) -> Result<(), SessionError> {
        self.metadata.set_permission_mode(mode);
        self.log.save_metadata(&self.metadata)
    }

    /// Sets the additional working directories, absolute and resolved. Must come before any rule is added, since it
    /// resets the policy. Blocks.
    pub fn set_additional_directories(
        &mut self,
        config: &RuntimeConfig,
        directories: Vec<PathBuf>,
    ) -> Result<(), SessionError> {
        let mut crow = self.metadata.crow();
        if crow.additional_directories == directories {
            return Ok(());
        }
        crow.additional_directories = directories;
        self.policy = policy(config, &crow);
        self.metadata.set_crow(&crow);
        self.log.save_metadata(&self.metadata)
    }

    /// Sets the agent that the session continues with, and the choices made for it. Differences from before are
    /// recorded
    /// as switches. Blocks.
    pub fn set_agent(
        &mut self,
        config: &RuntimeConfig,
        agent_type: &str,
        opened_with: OpenedWith,
    ) -> Result<(), SessionError> {
        let mut crow = self.metadata.crow();
        let before = crow.opened_with.take();
        let before = before.unwrap_or_else(|| OpenedWith::new(&self.metadata.agent_type));
        for switch in before.describe_changes(&opened_with) {
            self.record_switch(config, switch)?;
        }
        agent_type.clone_into(&mut self.metadata.agent_type);
        crow.set_opened_with(opened_with);
        self.metadata.set_crow(&crow);
        self.log.save_metadata(&self.metadata)
    }

    /// Sets the model that the session continues with. A change is recorded as a switch. Blocks.
    pub fn set_model(
        &mut self,
        config: &RuntimeConfig,
        model: &ModelRef,
        abilities: Abilities,
    ) -> Result<(), SessionError> {
        self.abilities = abilities;
        let before = self.metadata.model_ref();
        if before == *model {
            return Ok(());
        }
        self.record_switch(config, model_switch(&before, model))?;
        self.metadata.model.clone_from(&model.model);
        self.metadata.provider.clone_from(&model.provider);
        self.log.save_metadata(&self.metadata)
    }

    fn record_switch(
        &mut self,
        config: &RuntimeConfig,
        change: String,
    ) -> Result<(), SessionError> {
        let crow = self.metadata.crow();
        let mut switch = Envelope {
            seq: None,
            time: config.clock.now(),
            session_id: self.metadata.session_id.clone(),
            root_id: crow.root_id,
            agent: self.metadata.agent_type.clone(),
            role: crow.role,
            parent: self.metadata.parent(),
            round: 0,
            event: AgentEvent::Switch { change },
        };
        let log = &mut self.log;
        self.root.with_next_seq(|seq| {
            switch.seq = Some(seq);
            log.append(&switch)
        })?;
        let id = self.metadata.session_id.clone();
        let applied = self.history.apply(&switch);
        applied.map_err(|source| SessionError::Inconsistent { id, source })
    }
}

/// Removes a session that could not be written completely.
fn remove_incomplete(config: &RuntimeConfig, id: &SessionId) {
    if let Err(error) = config.store.remove(id) {
        tracing::warn!(session = %id, %error, "half a session stays behind");
    }
}

/// Folds the log of an opened session into its history.
fn fold(opened: &mut OpenedSession) -> Result<History, SessionError> {
    let id = opened.stored.metadata.session_id.clone();
    opened.stored.fold().map_err(|source| SessionError::Inconsistent { id, source })
}

/// Removes temporary files that killed processes left in the workspace.
fn remove_leftovers(config: &RuntimeConfig, crow: &CrowMetadata) {
    if let Some(stores) = &config.snapshots {
        stores.remove_leftovers(&crow.workspace());
    }
}

/// Reduces a grant for the session to a permission for its one call.
fn allow_once(event: &mut AgentEvent) {
    if let AgentEvent::PermissionDecision { answer, .. } = event
        && let PermissionAnswer::AllowSession { .. } = answer
    {
        *answer = PermissionAnswer::AllowOnce;
    }
}

/// Formats the text of a switch to another model.
pub(crate) fn model_switch(before: &ModelRef, after: &ModelRef) -> String {
    format!("model: {before} -> {after}")
}

/// Returns the configured policy resolved for the directories of a session. File tools are limited to the sandbox
/// paths.
fn policy(config: &RuntimeConfig, crow: &CrowMetadata) -> PermissionPolicy {
    let places = config.sandbox.as_ref().map(SandboxConfig::sandbox_paths).unwrap_or_default();
    resolve_rules(config.policy.clone().with_places(places), &crow.workspace())
}
