//! What an agent function works with.

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
    permission::SandboxPlaces,
    tool::{AgentContext, CurrentModel, CurrentText, HeaderValues, ToolResult},
};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{
    AgentError, InputMessage,
    agent_shared::AgentShared,
    child_agents::ChildAgents,
    jobs::last_job,
    questions::{AgentQuestions, ToRecord},
    runtime::RuntimeInner,
    user_processes::UserProcesses,
};
use crate::{
    ProcessRunner,
    changes::{Leases, ToolSnapshots},
    config::RuntimeConfig,
    events::Recorder,
    session::{SessionError, SessionMetadata, ToolState},
};
use crow_sandbox::AgentJobs;

/// What an agent function works with: its inbox, its history, its event stream, models and tools.
pub struct AgentInternals {
    pub(crate) config: Arc<RuntimeConfig>,
    pub(crate) shared: Arc<AgentShared>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) context: Arc<AgentContext>,
    /// Runs the processes of its calls, too.
    pub(crate) runner: ProcessRunner,
    pub(super) history: History,
    input: mpsc::Receiver<InputMessage>,
    pub(super) conversation: Option<(ModelRef, Box<dyn Conversation>)>,
    /// Made when a provider first leaves out what a call used.
    pub(super) estimator: Option<TokenEstimator>,
    pub(crate) tasks: TaskTracker,
    pub(crate) leases: Arc<Leases>,
    /// Up to where all that was undone is told.
    pub(super) undo_mark: u64,
    /// What the user was told of files that cannot be captured.
    pub(crate) told_trouble: VecDeque<String>,
    syncing: Option<JoinHandle<Result<(), SessionError>>>,
    pub(super) jobs: Arc<AgentJobs>,
    pub(super) children: Arc<ChildAgents>,
    /// Events that calls want to be recorded.
    pub(super) asked: mpsc::Receiver<ToRecord>,
    /// Ends the jobs when these internals are dropped: they never outlive the agent.
    _ends_jobs: DropGuard,
    /// The same for children in the background.
    _ends_children: DropGuard,
}

/// What internals are made of.
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
    /// Cancelled by interrupt and shutdown.
    pub cancel: CancellationToken,
}

/// Adds the temporary folder of the session's commands to the places that its tools may use, and returns all of them.
fn with_temp(shared: &AgentShared, temp: Option<&Path>) -> Arc<SandboxPlaces> {
    shared.tree.change_policy(|policy| {
        let writable = temp.map(Path::to_path_buf).into_iter().collect();
        policy.add_places(SandboxPlaces { writable, ..SandboxPlaces::default() });
        Arc::new(policy.places().clone())
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
        let scratch = parts.config.store.scratch(&metadata.session_id);
        if let Some(folder) = &scratch {
            // An agent may read what its own commands printed, and so may the others of the tree, also when it has ended:
            // its parent reads what it left.
            parts.shared.tree.change_policy(|policy| policy.add_readable(folder));
        }
        let sandbox = parts.shared.tree.sandbox.clone();
        let temp = sandbox.as_ref().map(|sandbox| sandbox.temp());
        let places = with_temp(&parts.shared, temp.as_deref());
        if let (Some(sandbox), Some(folder)) = (&sandbox, &scratch) {
            sandbox.show(folder);
        }
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
            places,
            file_views,
            todo,
            snapshots: snapshots.map(|snapshots| Arc::new(snapshots) as _),
            processes: Arc::new(runner),
            user_processes: Arc::new(user_processes),
            jobs: Some(Arc::clone(&jobs) as _),
            children: Some(Arc::clone(&children) as _),
            outside: Some(Arc::clone(&parts.shared.calls) as _),
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
            told_trouble: VecDeque::new(),
            syncing: None,
            asked,
            _ends_jobs: jobs.token().clone().drop_guard(),
            jobs,
            _ends_children: children.background.token().clone().drop_guard(),
            children,
        }
    }

    /// Returns the session's id.
    pub fn session_id(&self) -> &SessionId {
        &self.shared.id
    }

    /// Returns the session's header.
    pub fn metadata(&self) -> SessionMetadata {
        self.shared.metadata().clone()
    }

    /// Returns the history.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns what the tools of this session share.
    pub fn context(&self) -> &Arc<AgentContext> {
        &self.context
    }

    /// Returns what the runtime is made of.
    pub fn config(&self) -> &RuntimeConfig {
        &self.config
    }

    /// Returns the token that ends this agent: what hangs on it outlives a run.
    pub fn session_token(&self) -> &CancellationToken {
        &self.shared.session_token
    }

    /// Waits for the next input. Fails with [`AgentError::Closed`] on shutdown and when no handle is left.
    pub async fn receive(&mut self) -> Result<InputMessage, AgentError> {
        self.tell_undone(true).await?;
        let (shared, jobs) = (Arc::clone(&self.shared), Arc::clone(&self.jobs));
        loop {
            let message = tokio::select! {
                biased;
                () = shared.session_token.cancelled() => return Err(AgentError::Closed),
                () = shared.tree.undone.notified() => None,
                () = jobs.one_ended() => None,
                message = self.next_input() => Some(message),
            };
            if let Some(message) = message {
                return message;
            }
            self.tell_undone(true).await?;
            self.look_at_jobs().await?;
            self.tell_moved_files().await?;
        }
    }

    async fn next_input(&mut self) -> Result<InputMessage, AgentError> {
        tokio::select! {
            biased;
            (call_id, result) = self.shared.calls.unclaimed() => {
                Ok(InputMessage::ToolResult { call_id, result })
            }
            (run_id, content) = self.shared.steered(self.config.ids.as_ref()) => {
                Ok(InputMessage::Steering { run_id, content })
            }
            message = self.input.recv() => message.ok_or(AgentError::Closed),
        }
    }

    /// Begins a run. An interrupt since its input was sent has cancelled it; one of an earlier run has not.
    pub async fn start_run(&mut self, id: RunId) -> Result<RunGuard, AgentError> {
        let cancel = self.shared.begin_run(&id);
        self.tell_undone(true).await?;
        self.look_at_jobs().await?;
        self.recorder.reset_rounds();
        let settings = self.settings_to_record();
        self.emit(AgentEvent::RunStart { run_id: id.clone(), settings }).await?;
        self.recover_from_killed_sessions().await?;
        self.tell_moved_files().await?;
        self.ask_about_moved_files(&cancel).await?;
        Ok(RunGuard { id, cancel })
    }

    /// Ends a run, brings the header up to date and makes the log outlive a power cut.
    pub async fn end_run(&mut self, run: RunGuard, result: RunOutcome) -> Result<(), AgentError> {
        self.look_at_jobs().await?;
        self.tell_moved_files().await?;
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

    /// Returns the round that events are told with.
    pub fn round(&self) -> u32 {
        self.recorder.round()
    }

    /// Tells events with the round of another agent: of the one whose work this one looks at.
    pub fn set_round(&mut self, round: u32) {
        self.recorder.set_round(round);
    }

    /// Returns whether the kernel keeps commands of this session from changing anything, where they must not.
    pub fn holds_read_only_commands(&self) -> impl Future<Output = bool> + Send + use<> {
        let sandbox = self.shared.tree.sandbox.clone();
        async move {
            match sandbox {
                Some(sandbox) => sandbox.containment().await == Containment::Full,
                None => false,
            }
        }
    }

    /// Records an event: durable ones are in the log when this returns, and in the history.
    ///
    /// Secrets that the configuration knows are taken out first, so neither log nor history nor model sees them.
    pub async fn emit(&mut self, event: AgentEvent) -> Result<(), AgentError> {
        let event = self.recorder.redacted(event);
        // What the history would not take must not stand in the log: the session could not be opened again.
        self.history.accepts(event.event())?;
        self.shared.on_event(event.event());
        if let AgentEvent::TurnStart { turn } = event.event() {
            self.context.current_turn.store(*turn, Ordering::Relaxed);
        }
        let envelope = self.recorder.record(event, &self.shared.run_token()).await?;
        Ok(self.history.apply(&envelope)?)
    }

    /// Tells listeners of a failure, also when the log cannot take it.
    pub async fn report_error(&mut self, error: &AgentError) {
        let provider = if let AgentError::Provider(provider) = error {
            Some(provider.as_ref().clone())
        } else {
            None
        };
        let event = AgentEvent::Error { error: error.to_string(), provider };
        if self.emit(event.clone()).await.is_err() {
            self.recorder.tell(event, &self.shared.run_token()).await;
        }
    }

    /// Puts somebody's words into the history.
    pub async fn say(
        &mut self,
        source: InputSource,
        preface: Option<String>,
        mut content: Vec<Block>,
    ) -> Result<(), AgentError> {
        // The title is made of it.
        self.config.redactor.redact_blocks(&mut content);
        if matches!(source, InputSource::Prompt | InputSource::Steering) && self.set_title(&content)
        {
            // A session that is killed in its first run has its title all the same.
            self.save_metadata()?;
        }
        let message_id = MessageId::new(self.config.ids.next_id());
        self.emit(AgentEvent::UserInput { message_id, source, context: preface, content }).await?;
        self.sync_beside().await
    }

    /// Tells the model something as a message that stays in its history.
    pub async fn remind(&mut self, text: impl Into<String>) -> Result<(), AgentError> {
        let (level, audience) = (NoticeLevel::Info, NoticeAudience::Model);
        self.emit(AgentEvent::Notice { level, audience, text: text.into() }).await
    }

    /// Takes what was said in the middle of the run into the history, and returns it as text if there was anything.
    pub async fn take_steering(&mut self) -> Result<Option<String>, AgentError> {
        let mut said: Option<String> = None;
        loop {
            let next = self.shared.runs().next_steering();
            let Some(content) = next else { return Ok(said) };
            let text = Block::text_of(&content);
            said = Some(said.map_or(text.clone(), |before| format!("{before}\n{text}")));
            self.say(InputSource::Steering, None, content).await?;
        }
    }

    /// Sets what the agent is doing. Fails, and changes nothing, where [`AgentState::may_become`] does not hold; the ends
    /// of an agent are set by its runtime alone.
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

    /// Returns what the agent is doing.
    pub fn state(&self) -> AgentState {
        self.shared.state.borrow().clone()
    }

    /// Answers every open call, as after a crash or a cancel, so that the model can be asked again.
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

    /// Lets the log be written to the disk beside what comes next. At most one such write is under way; the failure of
    /// an earlier one is told here.
    pub(super) async fn sync_beside(&mut self) -> Result<(), AgentError> {
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

    /// Waits until the log is on the disk.
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

/// The result of a call whose end nobody saw.
fn interrupted(started: bool) -> ToolResult {
    let mut result = ToolResult::cancelled();
    result.output = if started {
        "The call was interrupted and its outcome is unknown: it may have ended, or still be running. Look at what it changed before you go on.".to_owned()
    } else {
        "The call was not run: the run was interrupted before it began.".to_owned()
    };
    result
}
