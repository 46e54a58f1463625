//! The context of a call: what a tool knows and may use besides its arguments. The model never sees it.

use std::{
    fmt,
    ops::Deref,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{Patch, Preview, Progress};
use crate::{
    capability::{
        Children, DelegatedCalls, Jobs, Processes, SessionAccess, SideModel, SnapshotError,
        Snapshots, UserQuestions,
    },
    ending::SharedWorkRecord,
    event::{Envelope, ParentCall},
    file_views::FileViews,
    ids::{CallId, FilesId, SessionId, SnapshotId},
    model::{Abilities, ModelRef},
    permission::{Disclosure, SandboxPaths, WithheldReads},
    resource_map::ResourceMap,
    todo::TodoList,
    trace::{TraceContext, TracedRun},
    workspace::Workspace,
};

/// The context that all calls of one session share.
#[derive(Debug)]
pub struct AgentContext {
    /// The session.
    pub session_id: SessionId,
    /// The root session, whose id the user sees.
    pub root_id: SessionId,
    /// The agent's name.
    pub agent_name: CurrentText,
    /// The purpose of the agent, in a line; empty if not described.
    pub description: CurrentText,
    /// The call that started the session, for a child.
    pub parent: Option<ParentCall>,
    /// Number of the current turn, or of the last one; 0 before the first.
    pub current_turn: AtomicU32,
    /// The program's own values in the session's header.
    pub metadata: HeaderValues,
    /// The model that the agent uses.
    pub model: CurrentModel,
    /// The directories that the agent works in.
    pub workspace: Workspace,
    /// Directory for outputs that are too long for the model, if they are saved. It may not exist yet.
    pub scratch: Option<PathBuf>,
    /// The temporary directory of the session's processes, if they have their own. The path is the same inside and
    /// outside of their sandbox.
    pub temp: Option<PathBuf>,
    /// The places of the sandbox. A tool that reads everything below a directory leaves out what they hide:
    /// permission was given for the directory, not for a hidden place in it.
    pub sandbox_paths: CurrentSandboxPaths,
    /// The file contents that the session has seen.
    pub file_views: FileViews,
    /// The todo list.
    pub todo: Mutex<TodoList>,
    /// What the calls of the run did. Agents that work for this one add to it.
    pub work: SharedWorkRecord,
    /// The run that goes on, if programs are told of its trace.
    pub traced_run: TracedRun,
    /// True if a person is connected who can answer questions.
    pub is_attended: bool,
    /// Starts processes.
    pub processes: Arc<dyn Processes>,
    /// Runs commands that the user configured and the model does not influence: their sandbox is that of the run,
    /// whatever this agent may do.
    pub user_processes: Arc<dyn Processes>,
    /// Runs jobs, if the runtime supports it.
    pub jobs: Option<Arc<dyn Jobs>>,
    /// Captures files, if the runtime supports it.
    pub snapshots: Option<Arc<dyn Snapshots>>,
    /// Starts child agents, if the runtime supports it.
    pub children: Option<Arc<dyn Children>>,
    /// Waits for results of calls that are run outside, if the runtime supports it.
    pub delegated_calls: Option<Arc<dyn DelegatedCalls>>,
    /// Asks the user, if the runtime supports it.
    pub questions: Option<Arc<dyn UserQuestions>>,
    /// Asks the model beside the conversation, if the runtime supports it.
    pub side_model: Option<Arc<dyn SideModel>>,
    /// Reads the log of the session, if there is one.
    pub log: Option<Arc<dyn ConversationLog>>,
    /// Tells what calls may do, if the runtime supports it.
    pub access: Option<Arc<dyn SessionAccess>>,
    /// Further values that the program gave to its tools.
    pub resources: ResourceMap,
}

impl AgentContext {
    /// Makes the context of a session with processes only: no jobs, snapshots, agents or questions, and no file
    /// views. The runtime adds what it supports; a test adds what it needs.
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
            sandbox_paths: CurrentSandboxPaths::default(),
            file_views: FileViews::default(),
            todo: Mutex::default(),
            work: SharedWorkRecord::default(),
            traced_run: TracedRun::default(),
            is_attended: false,
            user_processes: Arc::clone(&processes),
            processes,
            jobs: None,
            snapshots: None,
            children: None,
            delegated_calls: None,
            questions: None,
            side_model: None,
            log: None,
            access: None,
            resources: ResourceMap::default(),
        }
    }
}

/// The program's own values in a session's header. The runtime keeps them current.
#[derive(Debug, Default)]
pub struct HeaderValues(RwLock<Map<String, Value>>);

impl HeaderValues {
    /// Wraps the values.
    pub fn new(values: Map<String, Value>) -> Self {
        Self(RwLock::new(values))
    }

    /// Returns a value.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Sets a value in memory only: `AgentInternals::set_metadata` also saves it.
    pub fn set(&self, key: impl Into<String>, value: Value) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(key.into(), value);
    }
}

/// A shared value that the runtime may replace while tools read it.
#[derive(Debug, Default)]
pub struct Current<T: ?Sized>(RwLock<Arc<T>>);

/// A text about the agent that works in a session, such as its name or purpose. The agent may change between runs.
pub type CurrentText = Current<str>;

/// The places of the sandbox. Some are found while a session starts, before its first call.
pub type CurrentSandboxPaths = Current<SandboxPaths>;

impl<T: ?Sized> Current<T> {
    /// Wraps the first value.
    pub fn new(value: impl Into<Arc<T>>) -> Self {
        Self(RwLock::new(value.into()))
    }

    /// Returns the value.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the value.
    pub fn set(&self, value: impl Into<Arc<T>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = value.into();
    }
}

impl<T: Into<Arc<str>>> From<T> for CurrentText {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

/// The model that an agent uses. It may change between turns.
#[derive(Debug)]
pub struct CurrentModel {
    model: RwLock<(ModelRef, Abilities)>,
    /// Its context window in tokens; 0 if it is unknown.
    window: AtomicU64,
}

/// Maximum bytes of an output in a large window.
const OUTPUT_MOST: usize = 64 * 1024;
/// Minimum limit of an output, in a window however small.
const OUTPUT_LEAST: usize = 2 * 1024;
/// Part of the window that one output may take.
const OUTPUT_PART: u64 = 8;
/// Bytes of a token, few as in data.
const TOKEN_BYTES: u64 = 3;

impl CurrentModel {
    /// Makes it from a model and its abilities.
    pub fn new(reference: ModelRef, abilities: Abilities) -> Self {
        Self { model: RwLock::new((reference, abilities)), window: AtomicU64::new(0) }
    }

    /// Returns the number of bytes that one output should have at most: 64 kB, and about an eighth of the window if it is
    /// known.
    pub fn output_limit(&self) -> usize {
        match self.window() {
            None => OUTPUT_MOST,
            Some(window) => {
                let bytes = (window / OUTPUT_PART).saturating_mul(TOKEN_BYTES);
                usize::try_from(bytes).unwrap_or(OUTPUT_MOST).clamp(OUTPUT_LEAST, OUTPUT_MOST)
            }
        }
    }

    /// Returns the context window in tokens, if it is known.
    pub fn window(&self) -> Option<u64> {
        Some(self.window.load(Ordering::Relaxed)).filter(|window| *window > 0)
    }

    /// Sets the context window in tokens, if it is known.
    pub fn set_window(&self, window: Option<u64>) {
        self.window.store(window.unwrap_or(0), Ordering::Relaxed);
    }

    /// Returns the model.
    pub fn reference(&self) -> ModelRef {
        self.model.read().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Returns its abilities.
    pub fn abilities(&self) -> Abilities {
        self.model.read().unwrap_or_else(PoisonError::into_inner).1
    }

    /// Replaces the model.
    pub fn set(&self, reference: ModelRef, abilities: Abilities) {
        *self.model.write().unwrap_or_else(PoisonError::into_inner) = (reference, abilities);
    }
}

/// The context of one call.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The context that all calls of the session share.
    pub agent: Arc<AgentContext>,
    /// The call.
    pub call_id: CallId,
    /// Cancelled when the call must stop.
    pub cancellation: CancellationToken,
    /// The preview that the user was shown, if any.
    pub preview: Option<Preview>,
    /// Files that rules withhold from reading. A tool that reads everything below a directory leaves them out.
    pub withheld_reads: WithheldReads,
    /// Disclosure of the contents of the files that the call names but does not read.
    pub disclosure: Disclosure,
    /// Receives output of the call while it runs.
    pub progress: Progress,
}

impl ToolContext {
    /// Makes the context of a call without a preview and without withheld files.
    pub fn new(agent: Arc<AgentContext>, call_id: CallId) -> Self {
        Self {
            agent,
            call_id,
            cancellation: CancellationToken::new(),
            preview: None,
            withheld_reads: WithheldReads::default(),
            disclosure: Disclosure::AfterApproval,
            progress: Progress::default(),
        }
    }

    /// Returns the span of the call, if programs that it starts are told of it.
    pub fn trace_context(&self) -> Option<TraceContext> {
        let agent = &self.agent;
        let run = agent.traced_run.get()?;
        Some(TraceContext::of_tool_call(&agent.root_id, &run, &agent.session_id, &self.call_id))
    }

    /// Returns true if the call must stop.
    pub fn should_abort(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// Waits until the call must stop.
    pub async fn cancelled(&self) {
        self.cancellation.cancelled().await;
    }

    /// Captures the files of the workspace. Fails if the runtime has no snapshots.
    pub async fn snapshot(&self) -> Result<SnapshotId, SnapshotError> {
        self.snapshots()?.track().await
    }

    /// Returns the id of the current state of the workspace's files, without ignored ones.
    pub async fn files(&self) -> Result<FilesId, SnapshotError> {
        self.snapshots()?.files().await
    }

    /// Returns the changes since `snapshot`.
    pub async fn diff_since(&self, snapshot: &SnapshotId) -> Result<Patch, SnapshotError> {
        self.snapshots()?.patch(snapshot).await
    }

    fn snapshots(&self) -> Result<&dyn Snapshots, SnapshotError> {
        self.agent.snapshots.as_deref().ok_or(SnapshotError::Unavailable)
    }
}

impl Deref for ToolContext {
    type Target = AgentContext;

    fn deref(&self) -> &AgentContext {
        &self.agent
    }
}

/// Error of reading a session's own log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the log of this session cannot be read: {reason}")]
pub struct ConversationLogError {
    /// Why.
    pub reason: String,
}

/// Reads the log of a session, which also has what a compaction left out of the conversation.
#[async_trait]
pub trait ConversationLog: Send + Sync + fmt::Debug {
    /// Returns the lines of the log so far, oldest first, without those that a rewind removed.
    async fn lines(&self) -> Result<Vec<Envelope>, ConversationLogError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_may_take_an_eighth_of_the_window() {
        let reference = ModelRef { provider: "p".to_owned(), model: "m".to_owned() };
        let model = CurrentModel::new(reference, Abilities::default());
        for (window, bytes) in [
            (None, 65_536),
            (Some(1_000), 2_048),
            (Some(16_000), 6_000),
            (Some(32_768), 12_288),
            (Some(200_000), 65_536),
            (Some(u64::MAX), 65_536),
        ] {
            model.set_window(window);
            assert_eq!(model.output_limit(), bytes, "{window:?}");
        }
    }
}
