//! What a tool knows and may use beside its arguments. The model never sees it.

use std::{
    ops::Deref,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock, atomic::AtomicU32},
};

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{Patch, Preview, Progress};
use crate::{
    capability::{
        Children, Jobs, OutsideCalls, Processes, SnapshotError, Snapshots, UserQuestions,
    },
    event::ParentCall,
    file_views::FileViews,
    ids::{CallId, FilesId, SessionId, SnapshotId},
    model::{Abilities, ModelRef},
    permission::{SandboxPlaces, WithheldReads},
    resource_map::ResourceMap,
    todo::TodoList,
    workspace::Workspace,
};

/// What all calls of one session share.
#[derive(Debug)]
pub struct AgentContext {
    /// The session.
    pub session_id: SessionId,
    /// The root session, whose id the user knows.
    pub root_id: SessionId,
    /// The agent's name.
    pub agent_name: CurrentText,
    /// What the agent is for, in a line; empty where nobody said so.
    pub description: CurrentText,
    /// What started the session, for a child.
    pub parent: Option<ParentCall>,
    /// The number of the turn under way, or of the last one; 0 before the first.
    pub current_turn: AtomicU32,
    /// The program's own values in the session's header.
    pub metadata: HeaderValues,
    /// The model that the agent talks to.
    pub model: CurrentModel,
    /// Where the agent works.
    pub workspace: Workspace,
    /// Where outputs go that are too long for the model, if they are kept at all. The folder may not exist yet.
    pub scratch: Option<PathBuf>,
    /// The temporary folder of the session's processes, where they have one of their own. The path is the same inside and
    /// outside of their sandbox.
    pub temp: Option<PathBuf>,
    /// What commands can read and change beside the workspace. A tool that looks at everything below a folder leaves out
    /// what they hide: permission was given for the folder, and not for a hidden place in it.
    pub places: Arc<SandboxPlaces>,
    /// Which file contents the session has seen.
    pub file_views: FileViews,
    /// The todo list.
    pub todo: Mutex<TodoList>,
    /// Starts processes.
    pub processes: Arc<dyn Processes>,
    /// Runs commands that the user configured, and of which the model decides nothing: they are held as the run is, however
    /// far this agent may go.
    pub user_processes: Arc<dyn Processes>,
    /// Runs jobs, where the runtime does.
    pub jobs: Option<Arc<dyn Jobs>>,
    /// Captures files, where the runtime does.
    pub snapshots: Option<Arc<dyn Snapshots>>,
    /// Starts child agents, where the runtime does.
    pub children: Option<Arc<dyn Children>>,
    /// Waits for results of calls that are run outside, where the runtime does.
    pub outside: Option<Arc<dyn OutsideCalls>>,
    /// Asks the user, where the runtime does.
    pub questions: Option<Arc<dyn UserQuestions>>,
    /// Whatever else the program gave to its tools.
    pub resources: ResourceMap,
}

impl AgentContext {
    /// Makes the context of a session in which nothing but processes can be used: no jobs, snapshots, agents or questions,
    /// and nothing seen yet. The runtime adds what it has; a test what it looks at.
    pub fn new(
        session_id: SessionId,
        agent_name: impl Into<CurrentText>,
        model: CurrentModel,
        workspace: Workspace,
        processes: Arc<dyn Processes>,
    ) -> Self {
        Self {
            root_id: session_id.clone(),
            session_id,
            agent_name: agent_name.into(),
            description: CurrentText::new(""),
            parent: None,
            current_turn: AtomicU32::new(0),
            metadata: HeaderValues::default(),
            model,
            workspace,
            scratch: None,
            temp: None,
            places: Arc::default(),
            file_views: FileViews::default(),
            todo: Mutex::default(),
            user_processes: Arc::clone(&processes),
            processes,
            jobs: None,
            snapshots: None,
            children: None,
            outside: None,
            questions: None,
            resources: ResourceMap::default(),
        }
    }
}

/// The program's own values in a session's header. The runtime keeps them up to date.
#[derive(Debug, Default)]
pub struct HeaderValues(RwLock<Map<String, Value>>);

impl HeaderValues {
    /// Makes them.
    pub fn new(values: Map<String, Value>) -> Self {
        Self(RwLock::new(values))
    }

    /// Returns a value.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Sets a value. What a tool sets is not kept: `AgentInternals::set_metadata` keeps it, too.
    pub fn set(&self, key: impl Into<String>, value: Value) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(key.into(), value);
    }
}

/// A text about the agent that works in a session: its name, what it is for. Another one may go on with it between runs.
#[derive(Debug)]
pub struct CurrentText(RwLock<Arc<str>>);

impl CurrentText {
    /// Makes the text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(RwLock::new(text.into()))
    }

    /// Returns the text.
    pub fn get(&self) -> Arc<str> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another one in its place.
    pub fn set(&self, text: impl Into<Arc<str>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = text.into();
    }
}

impl<T: Into<Arc<str>>> From<T> for CurrentText {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

/// The model that an agent talks to. It may change between turns.
#[derive(Debug)]
pub struct CurrentModel(RwLock<(ModelRef, Abilities)>);

impl CurrentModel {
    /// Names a model and what it can do.
    pub fn new(reference: ModelRef, abilities: Abilities) -> Self {
        Self(RwLock::new((reference, abilities)))
    }

    /// Returns the model.
    pub fn reference(&self) -> ModelRef {
        self.0.read().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Returns what it can do.
    pub fn abilities(&self) -> Abilities {
        self.0.read().unwrap_or_else(PoisonError::into_inner).1
    }

    /// Sets another model.
    pub fn set(&self, reference: ModelRef, abilities: Abilities) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = (reference, abilities);
    }
}

/// What one call knows and may use.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// What all calls of the session share.
    pub agent: Arc<AgentContext>,
    /// The call.
    pub call_id: CallId,
    /// Cancelled when the call is to stop.
    pub cancellation: CancellationToken,
    /// What the user was shown, if anything.
    pub preview: Option<Preview>,
    /// What rules of the user keep from being read. A tool that looks at everything below a folder leaves it out.
    pub withheld_reads: WithheldReads,
    /// Takes what the call prints while it runs.
    pub progress: Progress,
}

impl ToolContext {
    /// Makes the context of a call of which nothing was shown and nothing is withheld.
    pub fn new(agent: Arc<AgentContext>, call_id: CallId) -> Self {
        Self {
            agent,
            call_id,
            cancellation: CancellationToken::new(),
            preview: None,
            withheld_reads: WithheldReads::default(),
            progress: Progress::default(),
        }
    }

    /// Returns whether the call is to stop.
    pub fn should_abort(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// Waits until the call is to stop.
    pub async fn cancelled(&self) {
        self.cancellation.cancelled().await;
    }

    /// Captures the files of the workspace.
    pub async fn snapshot(&self) -> Result<SnapshotId, SnapshotError> {
        match &self.agent.snapshots {
            Some(snapshots) => snapshots.track().await,
            None => Err(SnapshotError::Unavailable),
        }
    }

    /// Names the state that the files of the workspace are in, ignored ones left out.
    pub async fn files(&self) -> Result<FilesId, SnapshotError> {
        match &self.agent.snapshots {
            Some(snapshots) => snapshots.files().await,
            None => Err(SnapshotError::Unavailable),
        }
    }

    /// Returns what changed since `snapshot`.
    pub async fn diff_since(&self, snapshot: &SnapshotId) -> Result<Patch, SnapshotError> {
        match &self.agent.snapshots {
            Some(snapshots) => snapshots.patch(snapshot).await,
            None => Err(SnapshotError::Unavailable),
        }
    }
}

impl Deref for ToolContext {
    type Target = AgentContext;

    fn deref(&self) -> &AgentContext {
        &self.agent
    }
}
