//! The internals that an agent function works with.

use std::{
    collections::VecDeque,
    path::Path,
    sync::{Arc, Weak, atomic::Ordering},
};

use crow_core::{
    capability::Containment,
    context::TokenEstimator,
    event::{AgentEvent, AgentState, InputSource, NoticeAudience, NoticeLevel, RunOutcome},
    history::History,
    ids::{CallId, MessageId, ReplyId, RunId, SessionId},
    message::Block,
    model::{Abilities, Conversation, ModelRef},
    permission::SandboxPaths,
    tool::{AgentContext, CurrentModel, CurrentText, HeaderValues, ToolResult},
};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::recorder::Recorder;
use super::{
    AgentError, InputMessage,
    agent_shared::AgentShared,
    child_agents::ChildAgents,
    jobs::last_job,
    questions::{AgentQuestions, RecordRequest},
    runtime::RuntimeInner,
    user_processes::UserProcesses,
};
use crate::{
    ProcessRunner,
    changes::{Leases, ToolSnapshots},
    config::RuntimeConfig,
    session::{SessionError, SessionMetadata, ToolState},
};
use crow_sandbox::AgentJobs;

/// The interface of an agent function: its inbox, its history, its event stream, models and tools.
pub struct AgentInternals {
    pub(crate) config: Arc<RuntimeConfig>,
    pub(crate) shared: Arc<AgentShared>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) context: Arc<AgentContext>,
    /// Runs the processes of its calls as well.
    pub(crate) runner: ProcessRunner,
    pub(super) history: History,
    input: mpsc::Receiver<InputMessage>,
    pub(super) conversation: Option<(ModelRef, Box<dyn Conversation>)>,
    /// Created when a provider first omits the usage of a reply.
    pub(super) estimator: Option<TokenEstimator>,
    pub(crate) tasks: TaskTracker,
    pub(crate) leases: Arc<Leases>,
    /// The undo mark of the session up to which undo records have been reported.
    pub(super) undo_mark: u64,
    /// Texts of the problem notices already shown to the user.
    pub(crate) reported_errors: VecDeque<String>,
    syncing: Option<JoinHandle<Result<(), SessionError>>>,
    pub(super) jobs: Arc<AgentJobs>,
    pub(super) children: Arc<ChildAgents>,
    /// Events that calls ask the agent to record.
    pub(super) record_requests: mpsc::Receiver<RecordRequest>,
    /// Ends the jobs when the internals are dropped: jobs never outlive the agent.
    _ends_jobs: DropGuard,
    /// Likewise for background children.
    _ends_children: DropGuard,
}

/// Parts of new [`AgentInternals`].
pub(super) struct InternalsParts {
    pub runtime: Weak<RuntimeInner>,
    pub config: Arc<RuntimeConfig>,
    pub shared: Arc<AgentShared>,
    pub recorder: Arc<Recorder>,
    pub history: History,
    pub abilities: Abilities,
    pub tools: ToolState,
    pub input: mpsc::Receiver<InputMessage>,
    pub tasks: TaskTracker,
    pub leases: Arc<Leases>,
}

/// A run under way.
#[derive(Debug, Clone)]
pub struct RunGuard {
    /// The run.
    pub id: RunId,
    /// Cancelled by an interrupt and by shutdown.
    pub cancel: CancellationToken,
}

/// Adds the temporary folder of the session's commands to the sandbox paths of the policy, and returns all of them.
fn with_temp(shared: &AgentShared, temp: Option<&Path>) -> Arc<SandboxPaths> {
    shared.tree.change_policy(|policy| {
        let writable = temp.map(Path::to_path_buf).into_iter().collect();
        policy.add_places(SandboxPaths { writable, ..SandboxPaths::default() });
        Arc::new(policy.sandbox_paths().clone())
    })
}

fn process_runner(parts: &InternalsParts) -> ProcessRunner {
    let runner = ProcessRunner::new(parts.config.child_env.clone());
    match &parts.shared.tree.sandbox {
        Some(sandbox) => runner.in_sandbox(Arc::clone(sandbox)),
        None => runner,
    }
}

impl AgentInternals {
    pub(super) fn new(parts: InternalsParts) -> Self {
        let metadata = parts.shared.metadata().clone();
        let crow = metadata.crow();
        // 1) Paths that tools and commands may use.
        let scratch = parts.config.store.scratch(&metadata.session_id);
        if let Some(folder) = &scratch {
            // Every agent of the tree may read the outputs of this one's commands, also after it ended: its parent
            // reads them.
            parts.shared.tree.change_policy(|policy| policy.add_readable(folder));
        }
        let sandbox = parts.shared.tree.sandbox.clone();
        let temp = sandbox.as_ref().map(|sandbox| sandbox.temp());
        let places = with_temp(&parts.shared, temp.as_deref());
        if let (Some(sandbox), Some(folder)) = (&sandbox, &scratch) {
            sandbox.make_readable(folder);
        }
        // 2) Capabilities that calls use.
        let snapshots = parts.config.snapshots.clone().map(|stores| ToolSnapshots {
            stores,
            workspace: crow.workspace(),
            session: crow.root_id.clone(),
            tasks: parts.tasks.clone(),
        });
        let runner = process_runner(&parts);
        let user_processes =
            UserProcesses { runner: process_runner(&parts), tree: Arc::clone(&parts.shared.tree) };
        let own_runner = runner.clone();
        let token = &parts.shared.session_token;
        let jobs = Arc::new(AgentJobs::new(
            runner.clone(),
            parts.tasks.clone(),
            token,
            last_job(&parts.history),
        ));
        let children = Arc::new(ChildAgents::new(&parts));
        let (questions, asked) =
            AgentQuestions::new(Arc::clone(&parts.config), Arc::clone(&parts.shared));
        // 3) The context shared by the tools of this session.
        let ToolState { file_views, todo, resources } = parts.tools;
        let context = AgentContext {
            session_id: metadata.session_id.clone(),
            root_id: crow.root_id.clone(),
            agent_name: metadata.agent_type.as_str().into(),
            description: CurrentText::new(""),
            parent: metadata.parent(),
            current_turn: parts.history.turns().into(),
            metadata: HeaderValues::new(metadata.own_values()),
            model: CurrentModel::new(metadata.model_ref(), parts.abilities),
            workspace: crow.workspace(),
            scratch,
            temp,
            sandbox_paths: places,
            file_views,
            todo,
            snapshots: snapshots.map(|snapshots| Arc::new(snapshots) as _),
            processes: Arc::new(runner),
            user_processes: Arc::new(user_processes),
            jobs: Some(Arc::clone(&jobs) as _),
            children: Some(Arc::clone(&children) as _),
            delegated_calls: Some(Arc::clone(&parts.shared.calls) as _),
            questions: Some(Arc::new(questions)),
            resources,
        };
        Self {
            config: parts.config,
            shared: parts.shared,
            recorder: parts.recorder,
            context: Arc::new(context),
            runner: own_runner,
            history: parts.history,
            input: parts.input,
            conversation: None,
            estimator: None,
            tasks: parts.tasks,
            leases: parts.leases,
            undo_mark: 0,
            reported_errors: VecDeque::new(),
            syncing: None,
            record_requests: asked,
            _ends_jobs: jobs.token().clone().drop_guard(),
            jobs,
            _ends_children: children.background.token().clone().drop_guard(),
            children,
        }
    }

    /// Returns the session id.
    pub fn session_id(&self) -> &SessionId {
        &self.shared.id
    }

    /// Returns the session header.
    pub fn metadata(&self) -> SessionMetadata {
        self.shared.metadata().clone()
    }

    /// Returns the session history.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns the context shared by the tools of this session.
    pub fn context(&self) -> &Arc<AgentContext> {
        &self.context
    }

    /// Returns the configuration of the runtime.
    pub fn config(&self) -> &RuntimeConfig {
        &self.config
    }

    /// Returns the token that ends this agent. Its child tokens outlive a run.
    pub fn session_token(&self) -> &CancellationToken {
        &self.shared.session_token
    }

    /// Waits for the next input, and meanwhile reports undo records, job changes and moved files. Fails with
    /// [`AgentError::Closed`] on shutdown and when no handle is left.
    pub async fn receive(&mut self) -> Result<InputMessage, AgentError> {
        self.report_undos(true).await?;
        let (shared, jobs) = (Arc::clone(&self.shared), Arc::clone(&self.jobs));
        loop {
            let message = tokio::select! {
                biased;
                () = shared.session_token.cancelled() => return Err(AgentError::Closed),
                () = shared.tree.undo_recorded.notified() => None,
                () = jobs.wait_for_any_end() => None,
                message = self.next_input() => Some(message),
            };
            if let Some(message) = message {
                return message;
            }
            self.report_undos(true).await?;
            self.scan_jobs().await?;
            self.report_moved_files().await?;
        }
    }

    async fn next_input(&mut self) -> Result<InputMessage, AgentError> {
        tokio::select! {
            biased;
            (call_id, result) = self.shared.calls.next_unclaimed_result() => {
                Ok(InputMessage::ToolResult { call_id, result })
            }
            (run_id, content) = self.shared.next_steering_run(self.config.ids.as_ref()) => {
                Ok(InputMessage::Steering { run_id, content })
            }
            message = self.input.recv() => message.ok_or(AgentError::Closed),
        }
    }

    /// Begins a run. It is cancelled already if an interrupt came after its input was sent; interrupts of earlier runs
    /// do not count.
    pub async fn start_run(&mut self, id: RunId) -> Result<RunGuard, AgentError> {
        let cancel = self.shared.begin_run(&id);
        self.report_undos(true).await?;
        self.scan_jobs().await?;
        self.recorder.reset_rounds();
        let settings = self.settings_to_record();
        self.emit(AgentEvent::RunStart { run_id: id.clone(), settings }).await?;
        self.recover_from_killed_sessions().await?;
        self.report_moved_files().await?;
        self.ask_about_moved_files(&cancel).await?;
        Ok(RunGuard { id, cancel })
    }

    /// Ends a run, updates the header and syncs the log to disk.
    pub async fn end_run(&mut self, run: RunGuard, result: RunOutcome) -> Result<(), AgentError> {
        self.scan_jobs().await?;
        self.report_moved_files().await?;
        self.ask_about_moved_files(&run.cancel).await?;
        self.emit(AgentEvent::RunEnd { run_id: run.id, result }).await?;
        self.save_metadata()?;
        self.sync().await
    }

    /// Begins a round of the run.
    pub async fn start_round(&mut self) -> Result<(), AgentError> {
        self.recorder.next_round();
        self.emit(AgentEvent::RoundStart).await
    }

    /// Returns the round number of the events.
    pub fn round(&self) -> u32 {
        self.recorder.round()
    }

    /// Sets the round number of the events to that of another agent whose work this one reviews.
    pub fn set_round(&mut self, round: u32) {
        self.recorder.set_round(round);
    }

    /// Returns true if the sandbox can enforce read-only commands: its containment is full.
    pub fn can_enforce_read_only(&self) -> impl Future<Output = bool> + Send + use<> {
        let sandbox = self.shared.tree.sandbox.clone();
        async move {
            match sandbox {
                Some(sandbox) => sandbox.containment().await == Containment::Full,
                None => false,
            }
        }
    }

    /// Records an event: when this returns, a durable one is in the log and in the history.
    ///
    /// Secrets known to the configuration are removed first, so neither log nor history nor model sees them.
    pub async fn emit(&mut self, event: AgentEvent) -> Result<(), AgentError> {
        let event = self.recorder.redacted(event);
        // An event that the history rejects must not get into the log: the session could not be opened again.
        self.history.check_next(event.event())?;
        self.shared.on_event(event.event());
        if let AgentEvent::TurnStart { turn } = event.event() {
            self.context.current_turn.store(*turn, Ordering::Relaxed);
        }
        let envelope = self.recorder.record(event, &self.shared.run_token()).await?;
        Ok(self.history.apply(&envelope)?)
    }

    /// Reports an error to listeners, even if the log cannot take it.
    pub async fn report_error(&mut self, error: &AgentError) {
        let provider = if let AgentError::Provider(provider) = error {
            Some(provider.as_ref().clone())
        } else {
            None
        };
        let event = AgentEvent::Error { error: error.to_string(), provider };
        if self.emit(event.clone()).await.is_err() {
            self.recorder.emit_unlogged(event, &self.shared.run_token()).await;
        }
    }

    /// Adds an input to the history, with an optional preface as its context.
    pub async fn add_input(
        &mut self,
        source: InputSource,
        preface: Option<String>,
        mut content: Vec<Block>,
    ) -> Result<(), AgentError> {
        // Redacted here already because the title is made from it.
        self.config.redactor.redact_blocks(&mut content);
        if matches!(source, InputSource::Prompt | InputSource::Steering) && self.set_title(&content)
        {
            // Saved at once so that a session killed in its first run has a title.
            self.save_metadata()?;
        }
        let message_id = MessageId::new(self.config.ids.next_id());
        self.emit(AgentEvent::UserInput { message_id, source, context: preface, content }).await?;
        self.sync_in_background().await
    }

    /// Adds a notice for the model, which stays in its history.
    pub async fn add_notice(&mut self, text: impl Into<String>) -> Result<(), AgentError> {
        let (level, audience) = (NoticeLevel::Info, NoticeAudience::Model);
        self.emit(AgentEvent::Notice { level, audience, text: text.into() }).await
    }

    /// Moves the unread steering messages into the history, and returns their text if there were any.
    pub async fn take_steering(&mut self) -> Result<Option<String>, AgentError> {
        let mut text_so_far: Option<String> = None;
        loop {
            let next = self.shared.runs().next_steering();
            let Some(content) = next else { return Ok(text_so_far) };
            let text = Block::text_of(&content);
            text_so_far =
                Some(text_so_far.map_or(text.clone(), |before| format!("{before}\n{text}")));
            self.add_input(InputSource::Steering, None, content).await?;
        }
    }

    /// Sets the state of the agent. Fails without effect unless [`AgentState::may_become`] allows it; the end states
    /// are set by the runtime only.
    pub async fn set_state(&mut self, state: AgentState) -> Result<(), AgentError> {
        let from = self.state();
        if from == state {
            return Ok(());
        }
        if !from.may_become(&state) || state.is_end() {
            return Err(AgentError::IllegalState { from, to: state });
        }
        self.shared.state.send_replace(state.clone());
        self.emit(AgentEvent::StateChange { state }).await
    }

    /// Returns the state of the agent.
    pub fn state(&self) -> AgentState {
        self.shared.state.borrow().clone()
    }

    /// Answers every open call, as after a crash or a cancel, so that the model can be called again. Returns their
    /// number.
    pub async fn close_open_calls(&mut self) -> Result<usize, AgentError> {
        let Some(reply_id) = self.history.open_reply().cloned() else { return Ok(0) };
        let open = self.history.open_calls();
        for call in &open {
            let mut result = interrupted(call.started);
            if let Some(before) = call.snapshot.clone() {
                self.record_cut_off(before, &mut result).await?;
                result.metadata.cut_off = true;
            }
            self.end_call(call.call_id.clone(), reply_id.clone(), call.tool.clone(), result)
                .await?;
        }
        Ok(open.len())
    }

    async fn end_call(
        &mut self,
        call_id: CallId,
        reply_id: ReplyId,
        tool: String,
        result: ToolResult,
    ) -> Result<(), AgentError> {
        self.emit(AgentEvent::CallEnd { call_id, reply_id, tool, result, denial: None }).await
    }

    /// Syncs the log to disk in the background. At most one such sync is under way; the failure of an earlier one is
    /// returned here.
    pub(super) async fn sync_in_background(&mut self) -> Result<(), AgentError> {
        if let Some(task) = self.syncing.take() {
            if !task.is_finished() {
                self.syncing = Some(task);
                return Ok(());
            }
            finish(task).await?;
        }
        self.syncing = self.recorder.sync().map(|work| self.tasks.spawn_blocking(work));
        Ok(())
    }

    /// Syncs the log to disk and waits for it.
    async fn sync(&mut self) -> Result<(), AgentError> {
        if let Some(task) = self.syncing.take() {
            finish(task).await?;
        }
        if let Some(work) = self.recorder.sync() {
            finish(self.tasks.spawn_blocking(work)).await?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for AgentInternals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentInternals").field("session", &self.shared.id).finish_non_exhaustive()
    }
}

async fn finish(task: JoinHandle<Result<(), SessionError>>) -> Result<(), AgentError> {
    match task.await {
        Ok(result) => Ok(result?),
        Err(error) => Err(AgentError::Custom(Box::new(error))),
    }
}

/// Returns the result of a call whose end was not recorded.
fn interrupted(started: bool) -> ToolResult {
    let mut result = ToolResult::cancelled();
    result.output = if started {
        "The call was interrupted and its outcome is unknown: it may have ended, or still be running. Look at what it changed before you go on.".to_owned()
    } else {
        "The call was not run: the run was interrupted before it began.".to_owned()
    };
    result
}
