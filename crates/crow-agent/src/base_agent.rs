//! A base agent: one model, one system prompt, one set of tools, and the loop over them.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use crow_core::{
    call::named_call,
    ending::EndFacts,
    event::{AgentEvent, AgentState, CheckReport},
    ids::ReplyId,
    message::Block,
    model::{
        ModelConfig, ModelReply, ProviderErrorKind, ResolvedModel, ToolChoice, ToolDefinition,
    },
    todo::TodoReminder,
    tool::{AgentContext, Tool, ToolRegistry, TypedTool as _},
    turn::{CallOutcome, LimitKind, NextStep, RequestedCall, TurnEnd, TurnLimits, TurnMachine},
};
use crow_runtime::{AgentError, AgentInternals, ExecutedCall, ModelCall, take_hook_stop};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use crate::{
    compaction::Compactor,
    end_tools::TaskComplete,
    environment,
    fallback::Fallback,
    handoff::{Captures, TurnResult},
    hooks::{AgentHooks, HookDecision, RequestDraft, TerminationCondition, TurnProgress},
    instructions::{InstructionSources, InstructionTracker, give_instructions},
    mentioned_files::{MentionedFiles, mention_readers, read_mentioned_files},
    named_files::{describe_named_files, missing_files},
    profile::StepThinking,
    prompt::PromptStyle,
    session_hooks::TurnEndHooks,
    toolset::{SourcedFilter, Toolset},
};

/// The tool that runs commands.
const SHELL: &str = "bash";
/// The tool that reads a file.
const READ_FILE: &str = "read_file";

/// Configuration of a base agent.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// The system prompt; the same in every request of a session.
    pub system_prompt: String,
    /// Settings of the requests to the model.
    pub model: ModelConfig,
    /// Limits of a turn.
    pub limits: TurnLimits,
    /// Where the instructions of files come from; `None` if the agent gets none.
    pub instructions: Option<InstructionSources>,
    /// Style of the system prompt.
    pub prompt_style: PromptStyle,
    /// Thinking at each step, in place of [`ModelConfig::thinking`].
    pub step_thinking: Option<StepThinking>,
    /// True if the model is told once what contradicts its claim that the work is done.
    pub tells_contradictions: bool,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            system_prompt: String::new(),
            model: ModelConfig::default(),
            limits: TurnLimits::default(),
            instructions: None,
            prompt_style: PromptStyle::Full,
            step_thinking: None,
            tells_contradictions: true,
        }
    }
}

/// The model, tools, compactor and instructions of a turn.
struct TurnParts<'a> {
    model: Fallback<'a>,
    tools: Toolset<'a>,
    compactor: Compactor,
    instructions: InstructionTracker<'a>,
    /// True after a claim of finished work was refused or contradicted.
    is_closing: bool,
    todo_reminder: TodoReminder,
}

impl TurnParts<'_> {
    /// Returns a reminder of todos that the model did not update for some steps, if it can update them.
    fn remind_of_todos(&mut self, agent: &AgentInternals) -> Option<String> {
        self.tools.registry().get("todo_write")?;
        let list = agent.context().todo.lock().unwrap_or_else(PoisonError::into_inner);
        self.todo_reminder.take(&list)
    }
}

/// One model with a system prompt and tools. It knows nothing of reviewers or of what happens between turns.
#[derive(Debug, Clone)]
pub struct BaseAgent {
    name: String,
    config: AgentConfig,
    model: ResolvedModel,
    /// Models to ask, in this order, if the model cannot answer.
    fallbacks: Vec<ResolvedModel>,
    tools: Arc<ToolRegistry>,
    definitions: Arc<[ToolDefinition]>,
    /// Filter for the tools from the source of its session.
    sourced: SourcedFilter,
    /// The tool that reads the files which a message names; empty if they are not shown.
    named_file_reader: ToolRegistry,
    /// The tools that read what a message mentions with `@`; empty if mentions are only text.
    mention_readers: ToolRegistry,
    /// The tool whose rules count for commands in prompts; without it none runs.
    prompt_shell: ToolRegistry,
    hooks: Vec<Arc<dyn AgentHooks>>,
    conditions: Vec<Arc<dyn TerminationCondition>>,
}

impl BaseAgent {
    /// Makes an agent without fallbacks and without tools from an external source.
    pub fn new(
        name: impl Into<String>,
        config: AgentConfig,
        model: ResolvedModel,
        tools: ToolRegistry,
    ) -> Self {
        let mut agent = Self {
            name: name.into(),
            config,
            model,
            fallbacks: Vec::new(),
            tools: Arc::default(),
            definitions: Arc::default(),
            sourced: SourcedFilter::default(),
            named_file_reader: ToolRegistry::new(),
            mention_readers: ToolRegistry::new(),
            prompt_shell: ToolRegistry::new(),
            hooks: Vec::new(),
            conditions: Vec::new(),
        };
        agent.set_tools(tools);
        agent
    }

    /// Sets the models that are asked, one after the other, if the one before cannot answer: its provider is down,
    /// its quota is used up, its key is refused. The first model is tried again in the next turn.
    #[must_use]
    pub fn with_fallbacks(mut self, fallbacks: Vec<ResolvedModel>) -> Self {
        self.fallbacks = fallbacks;
        self
    }

    /// Shows the model the beginnings of the files that a message of the user names, with the tool `read_file` of these
    /// tools. Files that may not be read without a question are not shown.
    #[must_use]
    pub fn with_named_files(mut self, tools: &ToolRegistry) -> Self {
        self.named_file_reader = tools.for_agent(&[READ_FILE.to_owned()]).0;
        self
    }

    /// Runs the commands of prompts by the rules of the tool `bash` of these tools, whether or not the model has it: they can
    /// change nothing.
    #[must_use]
    pub fn with_prompt_commands(mut self, tools: &ToolRegistry) -> Self {
        self.prompt_shell = tools.for_agent(&[SHELL.to_owned()]).0;
        self
    }

    /// Tells the model, with a message of the user, what is in the files, folders and patterns that the message mentions with
    /// `@`, by the tools `read_file`, `list_directory` and `glob` of these tools. What may not be read without a question is
    /// left out, and the user is told.
    #[must_use]
    pub fn with_mentioned_files(mut self, tools: &ToolRegistry) -> Self {
        self.mention_readers = mention_readers(tools);
        self
    }

    /// Adds code of the program that runs before and after the parts of a turn.
    #[must_use]
    pub fn with_hooks(mut self, hooks: Arc<dyn AgentHooks>) -> Self {
        self.hooks.push(hooks);
        self
    }

    /// Adds a condition under which a turn ends.
    #[must_use]
    pub fn with_condition(mut self, condition: impl TerminationCondition + 'static) -> Self {
        self.conditions.push(Arc::new(condition));
        self
    }

    /// Returns the configuration.
    pub fn config(&self) -> &AgentConfig {
        &self.config
    }

    /// Gives it the tools from the source of its session that match these patterns, see
    /// [`ToolSource`](crow_core::tool::ToolSource).
    #[must_use]
    pub fn with_sourced(mut self, patterns: Vec<String>) -> Self {
        self.sourced = SourcedFilter::new(patterns);
        self
    }

    /// Returns the filter for the tools from the source of its session.
    pub(crate) fn sourced(&self) -> &SourcedFilter {
        &self.sourced
    }

    /// Replaces the filter for the tools from the source of its session.
    pub(crate) fn set_sourced(&mut self, sourced: SourcedFilter) {
        self.sourced = sourced;
    }

    /// Sets the system prompt.
    pub(crate) fn set_system_prompt(&mut self, prompt: String) {
        self.config.system_prompt = prompt;
    }

    /// Replaces the limits of a turn.
    #[must_use]
    pub fn with_limits(mut self, limits: TurnLimits) -> Self {
        self.config.limits = limits;
        self
    }

    fn set_tools(&mut self, tools: ToolRegistry) {
        self.definitions = tools.definitions().into();
        self.tools = Arc::new(tools);
    }

    /// Keeps the tools for which `keeps` returns true.
    pub(crate) fn retain_tools(&mut self, keeps: impl Fn(&dyn Tool) -> bool) {
        let mut tools = self.tools.as_ref().clone();
        tools.retain(keeps);
        self.set_tools(tools);
    }

    /// Adds a tool.
    pub(crate) fn add_tool(&mut self, tool: &Arc<dyn Tool>) {
        let mut tools = self.tools.as_ref().clone();
        tools.register_shared(Arc::clone(tool));
        self.set_tools(tools);
    }

    /// Returns the tool whose rules count for commands in prompts.
    pub(crate) fn prompt_shell(&self) -> Option<&Arc<dyn Tool>> {
        self.prompt_shell.get(SHELL)
    }

    /// Returns its tools.
    pub fn tools(&self) -> &ToolRegistry {
        &self.tools
    }

    /// Returns the model that it asks.
    pub fn model(&self) -> &ResolvedModel {
        &self.model
    }

    /// Returns the models to ask, in this order, if its model cannot answer.
    pub fn fallbacks(&self) -> &[ResolvedModel] {
        &self.fallbacks
    }

    /// Returns the agent's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds the instructions that count to the conversation, as far as it does not have them. Done before an input, so
    /// that they come before it.
    pub(crate) async fn give_instructions(
        &self,
        agent: &mut AgentInternals,
        cancel: &CancellationToken,
    ) -> Result<(), AgentError> {
        let Some(sources) = &self.config.instructions else { return Ok(()) };
        give_instructions(agent, sources, self.model.info.context_window, cancel).await
    }

    /// Returns the beginnings of the files that a message names, if the agent shows them.
    pub(crate) async fn describe_named_files(
        &self,
        agent: &mut AgentInternals,
        content: &[Block],
        cancel: &CancellationToken,
    ) -> Result<Option<String>, AgentError> {
        let Some(reader) = self.named_file_reader.get(READ_FILE) else { return Ok(None) };
        describe_named_files(agent, reader, content, cancel).await
    }

    /// Reads what a message mentions.
    pub(crate) async fn read_mentioned_files(
        &self,
        agent: &mut AgentInternals,
        content: &[Block],
        cancel: &CancellationToken,
    ) -> Result<MentionedFiles, AgentError> {
        let window = self.model.info.context_window;
        read_mentioned_files(agent, &self.mention_readers, content, window, cancel).await
    }

    /// Works until the model answers without a call, a tool ends the turn, a limit is reached, or `cancel` is
    /// cancelled. The history must end with something to answer; every call in it has its result afterwards.
    pub async fn execute_turn(
        &self,
        agent: &mut AgentInternals,
        cancel: &CancellationToken,
    ) -> Result<TurnResult, AgentError> {
        self.execute_turn_for(agent, cancel, None).await
    }

    /// Works like [`execute_turn`](Self::execute_turn). If the end of the turn with a text is the end of the work on
    /// `request`, the model is told once what speaks against it, and may go on.
    #[tracing::instrument(
        level = "debug",
        name = "turn",
        skip_all,
        fields(turn = next_turn(agent), agent = self.name())
    )]
    pub(crate) async fn execute_turn_for(
        &self,
        agent: &mut AgentInternals,
        cancel: &CancellationToken,
        request: Option<&str>,
    ) -> Result<TurnResult, AgentError> {
        let number = next_turn(agent);
        let clock = Arc::clone(&agent.config().clock);
        let started = clock.monotonic();
        tracing::debug!(model = %self.model.info.reference, "turn started");
        agent.emit(AgentEvent::TurnStart { turn: number }).await?;
        let mut result = TurnResult::default();
        // Everything that the turn starts uses this token, so that it ends with the turn.
        let turn = cancel.child_token();
        // A future in a span takes its room twice where it is made: boxing the large ones keeps them off the stack.
        let task = TurnTask { request, started };
        let outcome = Box::pin(self.work(agent, &mut result, &turn, task)).await;
        turn.cancel();
        let end = match &outcome {
            Ok(end) => end.clone(),
            Err(error) => TurnEnd::Error { error: error.to_string() },
        };
        let duration_ms = clock.monotonic().saturating_sub(started).as_millis();
        tracing::debug!(end = end.name(), duration_ms, "turn ended");
        agent.close_open_calls().await?;
        agent.emit(AgentEvent::TurnComplete { turn: number, end }).await?;
        result.end = outcome?;
        for hooks in &self.hooks {
            hooks.after_turn(agent, &result).await?;
        }
        Ok(result)
    }

    /// Compacts the conversation because the user asks for it: a summary of the model replaces all but the last steps
    /// and the user's messages. `focus` is what is to be kept above all. Returns false if there is nothing to leave
    /// out.
    ///
    /// Fails if `cancel` is cancelled or the session cannot be written. Where the model gives no summary, one is made
    /// without it.
    pub async fn compact(
        &self,
        agent: &mut AgentInternals,
        focus: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<bool, AgentError> {
        let mut tools = Toolset::new(&self.tools, &self.definitions, &self.sourced);
        tools.refresh(agent, cancel).await?;
        agent.set_state(AgentState::Processing).await?;
        let call = self.model_call(&self.model, &tools, ToolChoice::Auto, &self.config.model);
        let is_compacted = Compactor::default().on_request(agent, call, focus, cancel).await?;
        if is_compacted {
            environment::report_changes(agent).await?;
        }
        Ok(is_compacted)
    }

    /// The loop: asks the turn machine for the next step, executes it and reports the result.
    async fn work(
        &self,
        agent: &mut AgentInternals,
        result: &mut TurnResult,
        cancel: &CancellationToken,
        task: TurnTask<'_>,
    ) -> Result<TurnEnd, AgentError> {
        let mut turn = TurnMachine::new(self.config.limits);
        for hooks in &self.hooks {
            if let HookDecision::EndTurn(reason) = hooks.before_turn(agent).await? {
                return Ok(TurnEnd::Condition { reason });
            }
        }
        let mut parts = TurnParts {
            model: Fallback::new(&self.model, &self.fallbacks),
            tools: Toolset::new(&self.tools, &self.definitions, &self.sourced),
            compactor: Compactor::default(),
            instructions: InstructionTracker::new(self.config.instructions.as_ref()),
            is_closing: false,
            todo_reminder: TodoReminder::default(),
        };
        let mut end_hooks = TurnEndHooks::default();
        let mut reply_id = None;
        // The span of the step under way: a model call and the tool calls that it requests.
        let mut step = Span::none();
        loop {
            if cancel.is_cancelled() {
                on_cancelled(&mut turn, agent);
            }
            match turn.next_step() {
                NextStep::CallModel { tool_choice, reminder } => {
                    if let Some(limit) = agent.budget().exceeded_limit() {
                        turn.on_budget(limit);
                        continue;
                    }
                    if result.take_steering(agent.take_steering().await?) {
                        turn.on_steering();
                    }
                    let notices = reminder
                        .into_iter()
                        .chain(agent.budget().take_warning())
                        .chain(parts.remind_of_todos(agent));
                    for text in notices {
                        agent.add_notice(text).await?;
                    }
                    parts.tools.refresh(agent, cancel).await?;
                    let window = self.model.info.context_window;
                    parts.instructions.before_call(agent, window, cancel).await?;
                    if cancel.is_cancelled() {
                        // This may have waited for servers or a file system.
                        continue;
                    }
                    environment::report_changes(agent).await?;
                    let mut draft = RequestDraft::default();
                    if let Some(reason) = self.before_model_call(agent, &mut draft).await? {
                        turn.on_condition(reason);
                        continue;
                    }
                    step = tracing::debug_span!("step", step = turn.steps() + 1);
                    let config = self.step_config(turn.steps(), parts.is_closing);
                    let request = StepRequest { tool_choice, draft, config };
                    let asked = Box::pin(self.ask(agent, &mut parts, &request, cancel));
                    match asked.instrument(step.clone()).await {
                        Ok((id, reply)) => {
                            parts.compactor.on_model_call();
                            turn.on_reply(result.take_reply(&reply));
                            reply_id = Some(id);
                            if let Some(reason) = self.after_model_call(agent, &reply).await? {
                                turn.on_condition(reason);
                            }
                        }
                        Err(AgentError::Cancelled) => on_cancelled(&mut turn, agent),
                        Err(error) => return Err(error),
                    }
                }
                NextStep::CallTools(calls) => {
                    let answered =
                        self.answer(agent, &mut parts, reply_id.as_ref(), calls, result, cancel);
                    let answers = Box::pin(answered).instrument(step.clone()).await?;
                    turn.on_tools_done(&answers.outcomes);
                    agent.emit(AgentEvent::StepComplete { step: turn.steps() }).await?;
                    let elapsed = agent.config().clock.monotonic().saturating_sub(task.started);
                    let by_condition = || self.reason_to_end(&turn, result, elapsed);
                    let by_hook = take_hook_stop(agent);
                    if let Some(reason) = by_hook.or(answers.end).or_else(by_condition) {
                        turn.on_condition(reason);
                    }
                }
                NextStep::Done(
                    TurnEnd::Text | TurnEnd::TaskComplete { .. } | TurnEnd::SubmitForReview { .. },
                ) if result.take_steering(agent.take_steering().await?) => {
                    turn.on_steering();
                    result.task_complete = None;
                }
                NextStep::Done(end) => {
                    let missing = task.missing_files(Arc::clone(agent.context()), &end).await;
                    let objection = task.objection(agent, &end, result, &missing);
                    if let Some(objection) = objection.filter(|_| self.config.tells_contradictions)
                    {
                        parts.is_closing = true;
                        turn.on_objection(objection);
                        continue;
                    }
                    let text = result.text.as_deref();
                    if let Some(objection) = end_hooks.objection(agent, &end, text, cancel).await? {
                        turn.on_hook_objection(objection);
                        result.task_complete = None;
                        continue;
                    }
                    result.steps = turn.steps();
                    return Ok(end);
                }
            }
        }
    }

    /// Asks the current model, and the next fallback if it cannot answer. Compacts the conversation before, if it comes
    /// close to the window, and once more if the provider refuses it as too long.
    async fn ask<'a>(
        &'a self,
        agent: &mut AgentInternals,
        parts: &mut TurnParts<'a>,
        request: &StepRequest,
        cancel: &CancellationToken,
    ) -> Result<(ReplyId, ModelReply), AgentError> {
        let (tool_choice, messages) = (request.tool_choice, request.draft.messages.as_deref());
        agent.set_state(AgentState::Processing).await?;
        let mut has_overflowed = false;
        loop {
            let in_use = parts.model.in_use();
            let window = in_use.info.context_window;
            // Hooks that choose the messages decide about their length as well.
            let may_compact = messages.is_none();
            if may_compact {
                let call = self.model_call(in_use, &parts.tools, tool_choice, &request.config);
                if parts.compactor.before_call(agent, call, cancel).await? {
                    parts.tools.refresh(agent, cancel).await?;
                    parts.instructions.after_compaction(agent, window, cancel).await?;
                    environment::report_changes(agent).await?;
                }
            }
            let call = self.model_call(in_use, &parts.tools, tool_choice, &request.config);
            let call = ModelCall { messages, ..call };
            let context = Arc::clone(agent.context());
            let called = agent.call_model(call, cancel);
            match environment::call_model_beside_probe(&context, called).await {
                Err(AgentError::Provider(error))
                    if error.kind == ProviderErrorKind::ContextLength
                        && !has_overflowed
                        && may_compact =>
                {
                    has_overflowed = true;
                    if !parts.compactor.on_overflow(agent, call, cancel).await? {
                        return Err(AgentError::Provider(error));
                    }
                    parts.tools.refresh(agent, cancel).await?;
                    parts.instructions.after_compaction(agent, window, cancel).await?;
                    environment::report_changes(agent).await?;
                }
                Err(AgentError::Provider(error)) if error.kind.allows_fallback() => {
                    if !parts.model.fall_back(agent, &error).await? {
                        return Err(AgentError::Provider(error));
                    }
                }
                result => return result,
            }
        }
    }

    /// Returns the settings of the request of a step. `step` counts from zero within the turn.
    fn step_config(&self, step: u32, is_closing: bool) -> ModelConfig {
        let config = &self.config.model;
        match &self.config.step_thinking {
            Some(thinking) => thinking.config(config, step, is_closing),
            None => config.clone(),
        }
    }

    /// Returns the parameters of a call of this model.
    fn model_call<'a>(
        &'a self,
        model: &'a ResolvedModel,
        tools: &'a Toolset<'_>,
        tool_choice: ToolChoice<'a>,
        config: &'a ModelConfig,
    ) -> ModelCall<'a> {
        let definitions = if model.info.abilities.tools { tools.definitions() } else { &[] };
        let call = ModelCall::new(model, &self.config.system_prompt, definitions, config);
        ModelCall { tool_choice, ..call }
    }

    /// Runs the calls of a reply. If `task_complete` was called, emits its check report and stores it as evidence.
    async fn answer(
        &self,
        agent: &mut AgentInternals,
        parts: &mut TurnParts<'_>,
        reply_id: Option<&ReplyId>,
        mut calls: Vec<RequestedCall>,
        result: &mut TurnResult,
        cancel: &CancellationToken,
    ) -> Result<StepAnswers, AgentError> {
        let Some(reply_id) = reply_id else { return Ok(StepAnswers::default()) };
        // Hooks see the tool that is called.
        for requested in &mut calls {
            if let Some(named) = named_call(parts.tools.registry(), &requested.call) {
                requested.call = named;
            }
        }
        for hooks in &self.hooks {
            for call in &mut calls {
                hooks.before_call(agent, call).await?;
            }
        }
        let executed = agent.call(parts.tools.registry(), reply_id, calls, cancel).await?;
        parts.instructions.on_calls(&executed);
        parts.todo_reminder.on_step();
        if executed.iter().any(|call| call.result.metadata.extra.get("todos").is_some()) {
            parts.todo_reminder.on_update();
        }
        environment::record_calls(agent, parts.tools.registry(), &executed);
        let completion = executed.iter().rfind(|call| call.name == TaskComplete::NAME);
        parts.is_closing |= completion.is_some_and(|call| call.result.is_error());
        let report =
            completion.and_then(|call| CheckReport::from_extra(&call.result.metadata.extra));
        if let Some(mut report) = report {
            let context = Arc::clone(agent.context());
            confirm(&context, &mut report, cancel).await;
            if !report.checks.is_empty() {
                agent
                    .emit(AgentEvent::Checks {
                        checks: report.checks.clone(),
                        passed: report.passed(),
                        unverified: report.unverified.clone(),
                    })
                    .await?;
            }
            environment::record_checks(agent, &report.checks);
            result.evidence = report;
        }
        let end = self.after_calls(agent, &executed).await?;
        let is_captured = agent.context().snapshots.is_some();
        let captures = if is_captured { Captures::Available } else { Captures::Missing };
        Ok(StepAnswers { outcomes: result.take_calls(executed, captures), end })
    }

    /// Runs the hooks before a model call. Returns the reason if one ends the turn.
    async fn before_model_call(
        &self,
        agent: &mut AgentInternals,
        draft: &mut RequestDraft,
    ) -> Result<Option<String>, AgentError> {
        for hooks in &self.hooks {
            if let HookDecision::EndTurn(reason) = hooks.before_model_call(agent, draft).await? {
                return Ok(Some(reason));
            }
        }
        Ok(None)
    }

    /// Runs the hooks after a reply. Returns the reason if one ends the turn.
    async fn after_model_call(
        &self,
        agent: &mut AgentInternals,
        reply: &ModelReply,
    ) -> Result<Option<String>, AgentError> {
        for hooks in &self.hooks {
            if let HookDecision::EndTurn(reason) = hooks.after_model_call(agent, reply).await? {
                return Ok(Some(reason));
            }
        }
        Ok(None)
    }

    /// Runs the hooks for answered calls. Returns the reason if one ends the turn.
    async fn after_calls(
        &self,
        agent: &mut AgentInternals,
        calls: &[ExecutedCall],
    ) -> Result<Option<String>, AgentError> {
        for hooks in &self.hooks {
            for call in calls {
                if let HookDecision::EndTurn(reason) = hooks.after_call(agent, call).await? {
                    return Ok(Some(reason));
                }
            }
        }
        Ok(None)
    }

    /// Returns the reason of the first condition that ends the turn.
    fn reason_to_end(
        &self,
        turn: &TurnMachine,
        result: &TurnResult,
        elapsed: Duration,
    ) -> Option<String> {
        let progress = TurnProgress {
            steps: turn.steps(),
            usage: result.usage,
            elapsed,
            text: result.text.as_deref(),
            calls: &result.tool_calls,
            files_changed: &result.files_changed,
        };
        self.conditions.iter().find_map(|condition| condition.reason_to_end(&progress))
    }
}

/// What a turn works on.
#[derive(Clone, Copy)]
struct TurnTask<'a> {
    /// The user's request, if the turn ends the work on it.
    request: Option<&'a str>,
    /// When the turn began, on the monotonic clock.
    started: Duration,
}

impl TurnTask<'_> {
    /// Returns the files that the request names and that are missing, if the turn may end the work on it.
    async fn missing_files(&self, context: Arc<AgentContext>, end: &TurnEnd) -> Vec<String> {
        match self.request.filter(|_| *end == TurnEnd::Text) {
            Some(request) => missing_files(context, request).await,
            None => Vec::new(),
        }
    }

    /// Returns what the model is told before an end of the turn counts, once a run.
    fn objection(
        &self,
        agent: &AgentInternals,
        end: &TurnEnd,
        result: &TurnResult,
        missing_files: &[String],
    ) -> Option<String> {
        let context = agent.context();
        let todo = context.todo.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut work = context.work.lock();
        let text = result.text.as_deref().unwrap_or_default();
        let todo = todo.items();
        let facts = EndFacts { request: self.request?, text, work: &work, todo, missing_files };
        let objection = facts.objection(end, context.is_attended)?;
        work.begin_telling().then_some(objection)
    }
}

/// The request of a step.
struct StepRequest {
    tool_choice: ToolChoice<'static>,
    draft: RequestDraft,
    config: ModelConfig,
}

/// The answers to the calls of a reply.
#[derive(Default)]
struct StepAnswers {
    outcomes: Vec<CallOutcome>,
    /// The reason if a hook ends the turn.
    end: Option<String>,
}

/// Returns the number of the turn that begins next.
fn next_turn(agent: &AgentInternals) -> u32 {
    agent.history().turns().saturating_add(1)
}

/// Ends a cancelled turn. If the time of the run is over, the time limit is the reason.
fn on_cancelled(turn: &mut TurnMachine, agent: &AgentInternals) {
    if agent.budget().time_left() == Some(Duration::ZERO) {
        turn.on_budget(LimitKind::Time);
    } else {
        turn.on_cancelled();
    }
}

/// Withdraws the verification if the files are not those any more with which the checks passed: a call of the same
/// reply or a job changed some.
async fn confirm(context: &AgentContext, report: &mut CheckReport, cancel: &CancellationToken) {
    let Some(files) = report.files.as_ref().filter(|_| report.verified) else { return };
    let snapshots = context.snapshots.as_ref();
    let current = async { snapshots?.files().await.ok() };
    match cancel.run_until_cancelled(current).await.flatten() {
        Some(current) if current == *files => {}
        Some(_) => report.mark_unverified("files changed after the checks ran"),
        None => report.mark_unverified("it is unknown whether files changed after the checks ran"),
    }
}
