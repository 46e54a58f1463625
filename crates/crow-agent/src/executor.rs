//! [`AgentExecutor`]: runs tasks with an environment and a budget of context, without sessions on disk.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use crow_context::manager::{ContextError, ContextManager};
use crow_core::{
    event::{
        AgentEvent, AgentState, Envelope, Failure, InputSource, NoticeAudience, NoticeLevel,
        RunOutcome,
    },
    message::Block,
    model::ResolvedModel,
    tool::ToolRegistry,
    turn::TurnEnd,
    usage::TokenUsage,
};
use crow_runtime::{
    AgentError, AgentHandle, AgentInternals, AgentRuntime, AgentSession, EventStream, ExecutedCall,
    HandleError, InputMessage, RuntimeConfig, SessionError, SessionSpec,
};
use tokio::sync::mpsc;

use crate::{
    base_agent::{AgentConfig, BaseAgent},
    handoff::TurnResult,
    hooks::{AgentHooks, HookDecision, RequestDraft, TerminationCondition},
};

/// Name of the agent.
const NAME: &str = "agent";

/// Runs tasks with one model, tools, and a [`ContextManager`] that decides what the model is sent.
///
/// Each task is a run of a [`BaseAgent`] on the runtime, in a session of its own that lives in memory. The context is
/// kept between tasks: the environment, which results of tools update, and the conversation.
#[derive(Debug)]
pub struct AgentExecutor {
    agent: BaseAgent,
    context: Arc<Mutex<ContextManager>>,
    runtime: RuntimeConfig,
    cwd: PathBuf,
}

/// The result of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionOutcome {
    /// How the run ended. A model that answers without calling a tool ends it with
    /// [`RunOutcome::NeedsInput`].
    pub outcome: RunOutcome,
    /// The text of the last reply.
    pub text: String,
    /// Tokens of all model calls.
    pub usage: TokenUsage,
    /// Files that calls changed.
    pub files_modified: Vec<PathBuf>,
}

/// Error of a task. What goes wrong in a run is its [`ExecutionOutcome::outcome`], and an error only for those who ask
/// for an [answer](ExecutionOutcome::into_answer).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutionError {
    /// The session cannot be created.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The agent does not take the task.
    #[error(transparent)]
    Handle(#[from] HandleError),
    /// The agent ended before its run.
    #[error("the agent ended: {0}")]
    Ended(String),
    /// The run ended without an answer.
    #[error("the run ended without an answer: {0}")]
    Unanswered(String),
}

impl ExecutionOutcome {
    /// Returns the answer: the text of the last reply, or the summary of a task that is complete.
    ///
    /// # Errors
    /// Fails if the run failed, or if it was stopped or cancelled.
    pub fn into_answer(self) -> Result<String, ExecutionError> {
        match self.outcome {
            RunOutcome::NeedsInput => Ok(self.text),
            RunOutcome::Completed { summary, .. } => Ok(summary),
            RunOutcome::Stopped { reason } => Err(ExecutionError::Unanswered(reason.to_string())),
            RunOutcome::Cancelled => Err(ExecutionError::Unanswered("it was cancelled".to_owned())),
            RunOutcome::Failed { error, .. } => Err(ExecutionError::Unanswered(error)),
        }
    }
}

impl AgentExecutor {
    /// Makes an executor. A configuration without a system prompt gets that of the context, see
    /// [`ContextManager::instructions`]. It works in the folder `/` and asks nobody: calls that need a permission are denied, see
    /// [`with_runtime`](Self::with_runtime) and [`in_directory`](Self::in_directory).
    pub fn new(
        context: ContextManager,
        tools: ToolRegistry,
        model: ResolvedModel,
        mut config: AgentConfig,
    ) -> Self {
        if config.system_prompt.is_empty() {
            config.system_prompt = context.instructions();
        }
        let context = Arc::new(Mutex::new(context));
        let hooks = ContextHooks { context: Arc::clone(&context) };
        Self {
            agent: BaseAgent::new(NAME, config, model, tools).with_hooks(Arc::new(hooks)),
            context,
            runtime: RuntimeConfig::default(),
            cwd: PathBuf::from("/"),
        }
    }

    /// Sets the runtime: permissions, who answers questions, the sandbox, where sessions are stored.
    #[must_use]
    pub fn with_runtime(mut self, runtime: RuntimeConfig) -> Self {
        self.runtime = runtime;
        self
    }

    /// Sets the working directory of tools, absolute.
    #[must_use]
    pub fn in_directory(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = cwd.into();
        self
    }

    /// Adds code that runs before and after the parts of a turn.
    #[must_use]
    pub fn with_hooks(mut self, hooks: Arc<dyn AgentHooks>) -> Self {
        self.agent = self.agent.with_hooks(hooks);
        self
    }

    /// Adds a condition under which a run ends.
    #[must_use]
    pub fn with_condition(mut self, condition: impl TerminationCondition + 'static) -> Self {
        self.agent = self.agent.with_condition(condition);
        self
    }

    /// Returns the context: its environment, conversation and metrics. A run waits for it while it is held.
    pub fn context(&self) -> MutexGuard<'_, ContextManager> {
        lock(&self.context)
    }

    /// Runs a task and sends its events as they come. Waits while the channel is full; a closed one is no error.
    /// Dropping the future ends the run.
    ///
    /// # Errors
    /// Fails if the run cannot begin, or if the agent panics.
    pub async fn execute(
        &self,
        task: impl Into<String>,
        events: mpsc::Sender<Arc<Envelope>>,
    ) -> Result<ExecutionOutcome, ExecutionError> {
        self.run_task(task.into(), Some(events)).await
    }

    /// Runs a task as [`execute`](Self::execute) does, for a caller who needs only its end.
    ///
    /// # Errors
    /// Fails as [`execute`](Self::execute) does.
    pub async fn run(&self, task: impl Into<String>) -> Result<ExecutionOutcome, ExecutionError> {
        self.run_task(task.into(), None).await
    }

    async fn run_task(
        &self,
        task: String,
        events: Option<mpsc::Sender<Arc<Envelope>>>,
    ) -> Result<ExecutionOutcome, ExecutionError> {
        let runtime = AgentRuntime::new(self.runtime.clone());
        let reference = self.agent.model().info.reference.clone();
        let spec = SessionSpec {
            abilities: self.agent.model().info.abilities,
            ..SessionSpec::new(NAME, reference, self.cwd.clone())
        };
        let session = AgentSession::create(runtime.config(), spec)?;
        let agent = self.agent.clone();
        // The conversation of a session begins anew, that of the context goes on.
        lock(&self.context).follow_another();
        let handle = runtime.spawn(session, |internals| run_once(agent, internals));
        let mut stream = main_stream(&handle);
        let run = handle.send_input(vec![Block::text(task)])?;
        let mut outcome = None;
        while outcome.is_none()
            && let Some(event) = futures_util::StreamExt::next(&mut stream).await
        {
            match &event.event {
                AgentEvent::RunEnd { run_id, result, .. } if *run_id == run => {
                    outcome = Some(result.clone());
                }
                _ => {}
            }
            if let Some(events) = &events {
                // A dropped receiver does not end the run.
                drop(events.send(event).await);
            }
        }
        handle.shutdown();
        let end = handle.wait_for_end().await;
        let reason = || match &end.result {
            Ok(()) => "it has no run".to_owned(),
            Err(error) => error.clone(),
        };
        let outcome = outcome.ok_or_else(|| ExecutionError::Ended(reason()))?;
        Ok(ExecutionOutcome {
            outcome,
            text: end.text.clone(),
            usage: end.usage,
            files_modified: end.files_modified.clone(),
        })
    }
}

/// Returns the stream of an agent that was just started.
fn main_stream(handle: &AgentHandle) -> EventStream {
    handle.stream().expect("invariant: nobody took the stream of a new agent")
}

/// Works on the first input, and ends.
async fn run_once(agent: BaseAgent, mut internals: AgentInternals) -> Result<(), AgentError> {
    internals.set_state(AgentState::Idle).await?;
    let InputMessage::UserInput { run_id, content, .. } = internals.receive().await? else {
        return Ok(());
    };
    let run = internals.start_run(run_id).await?;
    internals.add_input(InputSource::Prompt, None, content).await?;
    let outcome = match Box::pin(agent.execute_turn(&mut internals, &run.cancel)).await {
        Ok(turn) => match turn.end {
            TurnEnd::Text => RunOutcome::NeedsInput,
            TurnEnd::TaskComplete { summary } | TurnEnd::SubmitForReview { summary } => {
                let verified = turn.evidence.verified;
                RunOutcome::Completed { summary, verified }
            }
            TurnEnd::Cancelled => RunOutcome::Cancelled,
            reason => RunOutcome::Stopped { reason },
        },
        Err(AgentError::Cancelled) => RunOutcome::Cancelled,
        Err(error @ AgentError::Session(_)) => return Err(error),
        Err(error) => {
            internals.report_error(&error).await;
            Failure::other(error.to_string()).into()
        }
    };
    internals.end_run(run, outcome).await
}

/// Sends the model what the context manager decides, and updates its environment.
#[derive(Debug)]
struct ContextHooks {
    context: Arc<Mutex<ContextManager>>,
}

#[async_trait]
impl AgentHooks for ContextHooks {
    async fn before_model_call(
        &self,
        agent: &mut AgentInternals,
        draft: &mut RequestDraft,
    ) -> Result<HookDecision, AgentError> {
        let messages = agent
            .history()
            .messages()
            .map_err(|open| AgentError::CallsOpen { count: open.len() })?;
        let view = {
            let mut context = lock(&self.context);
            context.follow(messages);
            context.build_request()
        };
        match view {
            Ok(view) => draft.messages = Some(view.messages),
            Err(error @ ContextError::BudgetTooSmall { .. }) => {
                return Ok(HookDecision::EndTurn(error.to_string()));
            }
            Err(error) => return Err(AgentError::Custom(Box::new(error))),
        }
        Ok(HookDecision::Continue)
    }

    async fn after_call(
        &self,
        agent: &mut AgentInternals,
        call: &ExecutedCall,
    ) -> Result<HookDecision, AgentError> {
        if call.result.is_error() {
            return Ok(HookDecision::Continue);
        }
        let updated = lock(&self.context).update_environment(&call.name, &call.result.output);
        if let Err(error) = updated {
            let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
            agent.emit(AgentEvent::Notice { level, audience, text: error.to_string() }).await?;
        }
        Ok(HookDecision::Continue)
    }

    async fn after_turn(
        &self,
        agent: &mut AgentInternals,
        _result: &TurnResult,
    ) -> Result<(), AgentError> {
        // The last reply, and what was answered as cancelled.
        if let Ok(messages) = agent.history().messages() {
            lock(&self.context).follow(messages);
        }
        Ok(())
    }
}

/// A panic of a handler is caught by the environment, so a context that was in use then is intact.
fn lock(context: &Mutex<ContextManager>) -> MutexGuard<'_, ContextManager> {
    context.lock().unwrap_or_else(PoisonError::into_inner)
}
