//! The internals that an agent function works with.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use crow_core::{
    event::{AgentEvent, AgentState, InputSource, RunEnding},
    history::History,
    hooks::{HookMoment, HookOutcome, SessionHooks},
    ids::{ReplyId, RunId, SessionId},
    message::{Block, Message},
    model::{Abilities, ModelInfo, ModelReply},
    permission::SandboxPaths,
    tool::{
        AgentContext, CurrentModel, CurrentSandboxPaths, CurrentText, HeaderValues, Tool,
        ToolRegistry, ToolSource,
    },
    trace::SampledRun,
    turn::RequestedCall,
};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{
    AgentEnd, AgentError, AgentHandle, ChildFactory, ChildSpec, ExecutedCall, InputMessage,
    ModelCall,
    agent_shared::AgentShared,
    child_agents::ChildAgents,
    children::wait_for_end,
    hook_port::HookPort,
    inbox::AgentInbox,
    job_changes::{JobChanges, JobChangesParts},
    job_notices::{JobNotices, last_job},
    model_call::{ModelPort, RequestSize},
    pipeline::{
        CallHookResults, CallPipeline, CallPipelineParts, CallSandbox, CallSandboxParts,
        ChangeTracker, ChangeTrackerParts, MovedFileNotices, ReadingLine, ReadingLineEnd,
        UnaskedRead, wait_for_scan,
    },
    questions::AgentQuestions,
    recorder::Recorder,
    run_budget::RunBudget,
    runtime::RuntimeInner,
    session_access::TreeAccess,
    session_writer::{SessionWriter, SessionWriterParts},
    side_requests::SideRequests,
    undo_notices::UndoNotices,
    user_processes::UserProcesses,
};
use crate::{
    ProcessRunner,
    changes::{Leases, ToolSnapshots},
    config::RuntimeConfig,
    session::{CrowMetadata, SessionMetadata, StoredConversation, ToolState},
};
use crow_sandbox::AgentJobs;

/// The interface of an agent function: its inbox, its history, its event stream, models and tools.
///
/// Each part owns its state. They meet only here, and write through the `SessionWriter`.
pub struct AgentInternals {
    session: SessionWriter,
    inbox: AgentInbox,
    model: ModelPort,
    calls: CallPipeline,
    budget: RunBudget,
    undo_notices: UndoNotices,
    job_notices: JobNotices,
    children: Arc<ChildAgents>,
    hooks: HookPort,
    /// Reason of a hook to end the turn.
    hook_stop: Option<String>,
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
fn with_temp(shared: &AgentShared, temp: Option<&Path>) -> SandboxPaths {
    shared.tree.change_policy(|policy| {
        let writable = temp.map(Path::to_path_buf).into_iter().collect();
        policy.add_places(SandboxPaths { writable, ..SandboxPaths::default() });
        policy.sandbox_paths().clone()
    })
}

fn process_runner(parts: &InternalsParts) -> ProcessRunner {
    let workspace = parts.shared.metadata().crow().workspace();
    let runner = ProcessRunner::new(parts.config.child_env.clone());
    let runner = runner.with_project_roots(workspace.roots());
    match &parts.shared.tree.sandbox {
        Some(sandbox) => runner.in_sandbox(Arc::clone(sandbox)),
        None => runner,
    }
}

fn tool_snapshots(parts: &InternalsParts, crow: &CrowMetadata) -> Option<ToolSnapshots> {
    parts.config.snapshots.clone().map(|stores| ToolSnapshots {
        stores,
        workspace: crow.workspace(),
        session: crow.root_id.clone(),
        tasks: parts.tasks.clone(),
    })
}

impl AgentInternals {
    /// Assembles the internals. Also returns the changes of its jobs, which are recorded beyond the end of its function.
    pub(super) fn new(parts: InternalsParts) -> (Self, JobChanges) {
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
        let snapshots = tool_snapshots(&parts, &crow);
        let runner = process_runner(&parts);
        let user_processes =
            UserProcesses { runner: process_runner(&parts), tree: Arc::clone(&parts.shared.tree) };
        let access =
            TreeAccess { tree: Arc::clone(&parts.shared.tree), access: parts.shared.access };
        let call_runner = runner.clone();
        let (tasks, token) = (parts.tasks.clone(), &parts.shared.session_token);
        let jobs = AgentJobs::new(runner.clone(), tasks, token, last_job(&parts.history));
        let jobs = Arc::new(jobs);
        let children = Arc::new(ChildAgents::new(&parts));
        let (shared, config) = (&parts.shared, &parts.config);
        let hooks = HookPort::new(Arc::clone(shared), process_runner(&parts));
        let (questions, record_queue) =
            AgentQuestions::new(Arc::clone(config), Arc::clone(shared), hooks.clone());
        let budget = RunBudget::new(Arc::clone(shared), Arc::clone(config));
        let side_model = SideRequests::new(config, shared, budget.clone(), questions.events());
        let last_model = side_model.last_model();
        // 3) The context shared by the tools of this session.
        let ToolState { file_views, todo, resources } = parts.tools;
        let workspace = crow.workspace();
        let log =
            StoredConversation::new(Arc::clone(&parts.config.store), metadata.session_id.clone());
        let context = Arc::new(AgentContext {
            session_id: metadata.session_id.clone(),
            root_id: crow.root_id.clone(),
            agent_name: metadata.agent_type.as_str().into(),
            description: CurrentText::new(""),
            parent: metadata.parent(),
            current_turn: parts.history.turns().into(),
            metadata: HeaderValues::new(metadata.own_values()),
            model: CurrentModel::new(metadata.model_ref(), parts.abilities),
            workspace: workspace.clone(),
            scratch,
            temp,
            sandbox_paths: CurrentSandboxPaths::new(places),
            file_views,
            todo,
            work: parts.shared.work.clone(),
            traced_run: parts.shared.tree.traced_run.clone(),
            is_attended: parts.shared.spawned == 0 && parts.config.answerer.is_attended(),
            snapshots: snapshots.map(|snapshots| Arc::new(snapshots) as _),
            processes: Arc::new(runner),
            user_processes: Arc::new(user_processes),
            jobs: Some(Arc::clone(&jobs) as _),
            children: Some(Arc::clone(&children) as _),
            delegated_calls: Some(Arc::clone(&parts.shared.calls) as _),
            questions: Some(Arc::new(questions)),
            side_model: Some(Arc::new(side_model)),
            log: Some(Arc::new(log)),
            access: Some(Arc::new(access)),
            resources,
        });
        // 4) The parts.
        let InternalsParts { config, shared, recorder, history, input, tasks, leases, .. } = parts;
        let tree = Arc::clone(&shared.tree);
        let job_changes = JobChanges::new(JobChangesParts {
            config: Arc::clone(&config),
            jobs: Arc::clone(&jobs),
            agent: shared.id.clone(),
            root: context.root_id.clone(),
            workspace: workspace.clone(),
            leases: Arc::clone(&leases),
            tasks: tasks.clone(),
        });
        let sandbox = CallSandbox::new(CallSandboxParts {
            tree: Arc::clone(&tree),
            runner: call_runner,
            access: shared.access,
            workspace: workspace.clone(),
            tasks: tasks.clone(),
        });
        let calls = CallPipeline::new(CallPipelineParts {
            config: Arc::clone(&config),
            shared: Arc::clone(&shared),
            sandbox,
            changes: ChangeTracker::new(ChangeTrackerParts {
                config: Arc::clone(&config),
                workspace: workspace.clone(),
                root: context.root_id.clone(),
                leases,
                tasks: tasks.clone(),
                jobs: job_changes.clone(),
            }),
            moved_files: MovedFileNotices::new(tree, workspace, tasks.clone()),
            record_queue,
            hooks: hooks.clone(),
        });
        let internals = Self {
            inbox: AgentInbox::new(Arc::clone(&shared), Arc::clone(&config.ids), input),
            model: ModelPort::new(Arc::clone(&shared), budget.clone(), last_model),
            calls,
            budget,
            undo_notices: UndoNotices::new(Arc::clone(&config.store)),
            _ends_jobs: jobs.token().clone().drop_guard(),
            _ends_children: children.background.token().clone().drop_guard(),
            job_notices: JobNotices::new(jobs, Arc::clone(&children)),
            children,
            hooks,
            hook_stop: None,
            session: SessionWriter::new(SessionWriterParts {
                config,
                shared,
                context,
                recorder,
                history,
                tasks,
            }),
        };
        (internals, job_changes)
    }

    /// Returns the session id.
    pub fn session_id(&self) -> &SessionId {
        &self.session.shared().id
    }

    /// Returns the session header.
    pub fn metadata(&self) -> SessionMetadata {
        self.session.shared().metadata().clone()
    }

    /// Stores a value of the embedding program in the session header. Blocks for one small write.
    pub fn set_metadata(&mut self, key: &str, value: Value) -> Result<(), AgentError> {
        self.session.set_metadata(key, value)
    }

    /// Updates and writes the session header. Done at the end of each run, and by the driver of a child after the
    /// child's turn. Blocks for one small write.
    pub fn save_metadata(&self) -> Result<(), AgentError> {
        self.session.save_metadata()
    }

    /// Returns the session history.
    pub fn history(&self) -> &History {
        self.session.history()
    }

    /// Returns the context shared by the tools of this session.
    pub fn context(&self) -> &Arc<AgentContext> {
        self.session.context()
    }

    /// Returns the configuration of the runtime.
    pub fn config(&self) -> &RuntimeConfig {
        self.session.config()
    }

    /// Returns the token that ends this agent. Its child tokens outlive a run.
    pub fn session_token(&self) -> &CancellationToken {
        &self.session.shared().session_token
    }

    /// Waits for the next input, and meanwhile reports undo records, job changes and moved files. Fails with
    /// [`AgentError::Closed`] on shutdown and when no handle is left.
    pub async fn receive(&mut self) -> Result<InputMessage, AgentError> {
        let Self { session, inbox, model, calls, undo_notices, job_notices, .. } = self;
        undo_notices.report(session, model, true).await?;
        let shared = Arc::clone(session.shared());
        loop {
            let message = tokio::select! {
                biased;
                () = shared.session_token.cancelled() => return Err(AgentError::Closed),
                () = shared.tree.undo_recorded.notified() => None,
                () = job_notices.wait_for_job_end() => None,
                message = inbox.next() => Some(message),
            };
            if let Some(message) = message {
                return message;
            }
            undo_notices.report(session, model, true).await?;
            calls.scan_jobs(session).await?;
            calls.report_moved_files(session).await?;
        }
    }

    /// Begins a run. It is cancelled already if an interrupt came after its input was sent; interrupts of earlier runs
    /// do not count.
    pub async fn start_run(&mut self, id: RunId) -> Result<RunGuard, AgentError> {
        let Self { session, model, calls, undo_notices, .. } = self;
        let cancel = session.shared().begin_run(&id);
        if let Some(ratio) = session.config().trace_sampling
            && session.shared().depth == 0
        {
            session.shared().tree.traced_run.set(SampledRun { id: id.clone(), ratio });
        }
        undo_notices.report(session, model, true).await?;
        calls.scan_jobs(session).await?;
        session.set_round(0);
        let settings = session.settings_to_record();
        session.emit(AgentEvent::RunStart { run_id: id.clone(), settings }).await?;
        calls.recover_from_killed_sessions(session).await?;
        calls.report_moved_files(session).await?;
        calls.ask_about_moved_files(session, &cancel).await?;
        Ok(RunGuard { id, cancel })
    }

    /// Ends a run, updates the header and syncs the log to disk.
    pub async fn end_run(
        &mut self,
        run: RunGuard,
        ending: impl Into<RunEnding>,
    ) -> Result<(), AgentError> {
        let RunEnding { outcome: result, assessment } = ending.into();
        let Self { session, calls, .. } = self;
        calls.scan_jobs(session).await?;
        calls.report_moved_files(session).await?;
        calls.ask_about_moved_files(session, &run.cancel).await?;
        session.emit(AgentEvent::RunEnd { run_id: run.id, result, assessment }).await?;
        session.save_metadata()?;
        session.sync().await
    }

    /// Begins a round of the run.
    pub async fn start_round(&mut self) -> Result<(), AgentError> {
        self.session.start_round().await
    }

    /// Returns the round number of the events.
    pub fn round(&self) -> u32 {
        self.session.round()
    }

    /// Sets the round number of the events to that of another agent whose work this one reviews.
    pub fn set_round(&mut self, round: u32) {
        self.session.set_round(round);
    }

    /// Returns the budget of the run under way.
    pub fn budget(&self) -> &RunBudget {
        &self.budget
    }

    /// Returns true if the sandbox can enforce read-only commands: its containment is full.
    pub fn can_enforce_read_only(&self) -> impl Future<Output = bool> + Send + use<> {
        self.calls.can_enforce_read_only()
    }

    /// Records an event: when this returns, a durable one is in the log and in the history.
    ///
    /// Secrets known to the configuration are removed first, so neither log nor history nor model sees them.
    pub async fn emit(&mut self, event: AgentEvent) -> Result<(), AgentError> {
        let is_compaction = matches!(event, AgentEvent::Compaction { .. });
        self.session.emit(event).await?;
        if is_compaction {
            self.model.restart_estimates();
        }
        Ok(())
    }

    /// Reports an error to listeners, even if the log cannot take it.
    pub async fn report_error(&mut self, error: &AgentError) {
        self.session.report_error(error).await;
    }

    /// Adds an input to the history, with an optional preface as its context.
    pub async fn add_input(
        &mut self,
        source: InputSource,
        preface: Option<String>,
        content: Vec<Block>,
    ) -> Result<(), AgentError> {
        self.session.add_input(source, preface, content).await
    }

    /// Adds a notice for the model, which stays in its history.
    pub async fn add_notice(&mut self, text: impl Into<String>) -> Result<(), AgentError> {
        self.session.add_notice(text.into()).await
    }

    /// Moves the unread steering messages into the history, and returns their text if there were any.
    pub async fn take_steering(&mut self) -> Result<Option<String>, AgentError> {
        let mut text_so_far: Option<String> = None;
        while let Some(content) = self.inbox.next_steering() {
            let text = Block::text_of(&content);
            let cancel = self.session.shared().run_token();
            let outcome = run_hooks(self, HookMoment::Prompt { text: &text }, &cancel).await?;
            if outcome.has_run && cancel.is_cancelled() {
                // Nobody knows what the hooks would have said: it stays unread.
                self.session.shared().runs().return_steering(content);
                return Ok(text_so_far);
            }
            if let Some(reason) = outcome.refusal() {
                let text = format!(
                    "a hook refused what you wrote, and the agent did not read it: {reason}"
                );
                self.session.warn_user(text).await?;
                continue;
            }
            text_so_far =
                Some(text_so_far.map_or(text.clone(), |before| format!("{before}\n{text}")));
            self.add_input(InputSource::Steering, None, content).await?;
            for text in outcome.context {
                self.add_notice(text).await?;
            }
        }
        Ok(text_so_far)
    }

    /// Sets the state of the agent. Fails without effect unless [`AgentState::may_become`] allows it; the end states
    /// are set by the runtime only.
    pub async fn set_state(&mut self, state: AgentState) -> Result<(), AgentError> {
        self.session.set_state(state).await
    }

    /// Returns the state of the agent.
    pub fn state(&self) -> AgentState {
        self.session.state()
    }

    /// Switches to another model for all later model calls. The switch is recorded, and the header names the new model.
    pub async fn switch_model(&mut self, info: &ModelInfo) -> Result<(), AgentError> {
        self.session.switch_model(info).await
    }

    /// Switches to another agent: later events carry its name, and the permission rules of that agent apply. The
    /// `switches` describe the differences and are recorded first.
    pub async fn switch_agent(
        &mut self,
        name: &str,
        switches: Vec<String>,
    ) -> Result<(), AgentError> {
        self.session.switch_agent(name, switches).await
    }

    /// Calls the model with the conversation of the history, or with the messages of `call`, emits deltas as events, and records the reply and its usage.
    ///
    /// Returns the reply and its id in the history.
    pub async fn call_model(
        &mut self,
        call: ModelCall<'_>,
        cancel: &CancellationToken,
    ) -> Result<(ReplyId, ModelReply), AgentError> {
        let Self { session, model, undo_notices, job_notices, .. } = self;
        session.set_state(AgentState::Processing).await?;
        // Notices that the model must see first.
        undo_notices.report(session, model, false).await?;
        job_notices.report(session).await?;
        model.call(session, call, cancel).await
    }

    /// Returns the length of the next request with these parameters. Fails while calls have no result.
    pub fn request_size(&mut self, call: ModelCall<'_>) -> Result<RequestSize<'_>, AgentError> {
        self.model.request_size(self.session.history(), call)
    }

    /// Records that the provider refused a request of this many tokens as too long.
    pub fn on_refused_length(&mut self, call: ModelCall<'_>, tokens: u64) {
        self.model.on_refused_length(call, tokens);
    }

    /// Asks the model with `messages` instead of the history, beside the conversation: for a summary of it, for
    /// example. Nothing of the reply is recorded or shown but its usage, which counts towards the budget.
    pub async fn ask_model(
        &mut self,
        call: ModelCall<'_>,
        messages: &[Arc<Message>],
        cancel: &CancellationToken,
    ) -> Result<ModelReply, AgentError> {
        self.model.ask(&mut self.session, call, messages, cancel).await
    }

    /// Answers the calls of a reply, each exactly once, and returns the answers in the order of the calls.
    ///
    /// Consecutive reading calls run in parallel, as do consecutive agent-starting calls; every other call runs alone,
    /// in order. When `cancel` is cancelled the remaining calls are answered as cancelled. Fails without running
    /// anything if a call is not open in the history.
    pub async fn call(
        &mut self,
        tools: &ToolRegistry,
        reply_id: &ReplyId,
        calls: Vec<RequestedCall>,
        cancel: &CancellationToken,
    ) -> Result<Vec<ExecutedCall>, AgentError> {
        let executed = self.calls.call(&mut self.session, tools, reply_id, calls, cancel).await?;
        let CallHookResults { context, stop } = self.calls.take_hook_results();
        self.hook_stop = self.hook_stop.take().or(stop);
        for text in context {
            self.add_notice(text).await?;
        }
        Ok(executed)
    }

    /// Answers every open call, as after a crash or a cancel, so that the model can be called again. Returns their
    /// number.
    pub async fn close_open_calls(&mut self) -> Result<usize, AgentError> {
        self.calls.close_open_calls(&mut self.session).await
    }

    /// Waits for a scan of the project's files. Notifies the user if it takes long, such as the first scan of a large
    /// project.
    pub async fn wait_for_scan<T>(
        &mut self,
        scan: impl Future<Output = T>,
    ) -> Result<T, AgentError> {
        wait_for_scan(&mut self.session, scan).await
    }

    /// Enables the calls of this agent, and of agents it drives from now on, to start children by name.
    pub fn offer_children(&self, factory: Arc<dyn ChildFactory>) {
        self.children.set_factory(factory);
    }

    /// Sets the source of dynamic tools for all agents of the tree. Returns false if there is one already, which is
    /// kept.
    pub fn offer_tools(&self, source: Arc<dyn ToolSource>) -> bool {
        self.session.shared().tree.tool_source.set(source).is_ok()
    }

    /// Returns the source of dynamic tools of the tree.
    pub fn tool_source(&self) -> Option<Arc<dyn ToolSource>> {
        self.session.shared().tree.tool_source.get().cloned()
    }

    /// Creates a child agent that this function drives itself, in its own task, so that one agent can act as another.
    /// Its session is a child of this one, its events go to the same stream, and its usage counts as this agent's.
    pub async fn child(&mut self, spec: ChildSpec) -> Result<Self, AgentError> {
        let (inner, session) = self.children.session(&spec).await?;
        Ok(self.children.drive(&inner, session, spec.access))
    }

    /// Reopens the last session among `earlier` in which an earlier process drove such a child, with its history; its
    /// open calls are answered. Returns `None` if there is none.
    pub async fn reopen_child(
        &mut self,
        spec: &ChildSpec,
        earlier: &[SessionId],
    ) -> Result<Option<Self>, AgentError> {
        let Some((inner, session)) = self.children.earlier_session(spec, earlier).await? else {
            return Ok(None);
        };
        let mut child = self.children.drive(&inner, session, spec.access);
        child.close_open_calls().await?;
        Ok(Some(child))
    }

    /// Spawns a child agent with a task and a handle of its own.
    ///
    /// It is shut down when `owner` is cancelled: the token of a call or a run, or
    /// [`session_token`](Self::session_token) for a child that outlives the run. It never outlives this agent, and it
    /// continues without any handle. Its events go to the stream of the root. Fails if children are nested too deep or
    /// too many run, see [`ChildLimits`](crate::ChildLimits), and if the runtime was dropped.
    pub async fn spawn_child<F, Fut>(
        &mut self,
        spec: ChildSpec,
        owner: &CancellationToken,
        agent: F,
    ) -> Result<AgentHandle, AgentError>
    where
        F: FnOnce(Self) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), AgentError>> + Send + 'static,
    {
        let running = self.config().children.running;
        self.children.check_depth()?;
        let seat = self.session.shared().tree.try_acquire_slot();
        let seat = seat.ok_or(AgentError::TooManyChildren { running })?;
        self.children.spawn(spec, owner, seat, agent).await
    }

    /// Waits for a child to end. A child that does not end in time after `cancel` is aborted.
    pub async fn wait_for_child(
        &mut self,
        child: &AgentHandle,
        cancel: &CancellationToken,
    ) -> Result<Arc<AgentEnd>, AgentError> {
        self.set_state(AgentState::WaitingForSubagent(child.session_id().clone())).await?;
        let end = wait_for_end(child, cancel).await;
        self.set_state(AgentState::Processing).await?;
        Ok(end)
    }
}

impl std::fmt::Debug for AgentInternals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentInternals").field("session", self.session_id()).finish_non_exhaustive()
    }
}

/// Returns the only file that a call of a reading tool would read, with links resolved, if the policy allows the call
/// without a question. Nothing is run or recorded.
pub async fn readable_unasked(
    agent: &mut AgentInternals,
    tool: &Arc<dyn Tool>,
    input: &Value,
    cancel: &CancellationToken,
) -> Result<Option<PathBuf>, AgentError> {
    agent.calls.readable_unasked(&mut agent.session, tool, input, cancel).await
}

/// Calls a reading tool, if the policy allows the call without a question and it reads only one file, folder or pattern.
/// Nothing is recorded. A file counts as read afterwards. The text is redacted.
pub async fn read_unasked(
    agent: &mut AgentInternals,
    tool: &Arc<dyn Tool>,
    input: Value,
    cancel: &CancellationToken,
) -> Result<UnaskedRead, AgentError> {
    agent.calls.read_unasked(&mut agent.session, tool, input, cancel).await
}

/// Runs a line in the shell of an agent so that it can change nothing, if the rules permit it in the read-only mode. Nothing is
/// recorded.
pub async fn run_reading_line(
    agent: &mut AgentInternals,
    shell: &Arc<dyn Tool>,
    line: ReadingLine<'_>,
    cancel: &CancellationToken,
) -> Result<ReadingLineEnd, AgentError> {
    agent.calls.run_reading_line(&mut agent.session, shell, line, cancel).await
}

/// Lets tools and commands of a session read a folder without a question, even if it lies in a hidden one. Rules of the user
/// and files with keys still count.
pub fn make_readable(agent: &AgentInternals, folder: &Path) {
    let tree = &agent.session.shared().tree;
    tree.change_policy(|policy| policy.add_readable(folder));
    if let Some(sandbox) = &tree.sandbox {
        sandbox.make_readable(folder);
    }
}

/// Sets the hooks for all agents of the tree. Returns false if there are some already, which are kept.
pub fn set_hooks(agent: &AgentInternals, hooks: Arc<dyn SessionHooks>) -> bool {
    agent.session.shared().tree.hooks.set(hooks).is_ok()
}

/// Runs the hooks of a moment, and shows the user what they say. The caller acts on the rest of the answer.
pub async fn run_hooks(
    agent: &mut AgentInternals,
    moment: HookMoment<'_>,
    cancel: &CancellationToken,
) -> Result<HookOutcome, AgentError> {
    let AgentInternals { session, hooks, .. } = agent;
    if !hooks.has(moment.kind()) {
        return Ok(HookOutcome::default());
    }
    let mut outcome = hooks.run(moment, cancel).await;
    session.show_notices(std::mem::take(&mut outcome.notices)).await?;
    Ok(outcome)
}

/// Returns the reason of a hook of a call to end the turn, once.
pub fn take_hook_stop(agent: &mut AgentInternals) -> Option<String> {
    agent.hook_stop.take()
}
