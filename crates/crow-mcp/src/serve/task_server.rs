//! The server: its tools, run over the host of sessions.

use std::{
    fmt::{self, Write as _},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use crow_core::{event::RunOutcome, ids::SessionId};
use crow_runtime::{AgentHost, CommandOutcome, HostError, NewSession, SessionSetup};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities,
        ServerConfig,
    },
    service::{RequestContext, serve_server_with_ct},
};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::{
    inputs::{
        ANSWER, AnswerInput, CANCEL, DIFF, FOLLOW, LIST, RUN, RunTaskInput, TaskIdInput, parse,
        tools,
    },
    questions::TaskQuestion,
    tasks::{HostedTask, SharedTasks, TaskProgress},
};
use crate::text;

/// Maximum size of a text in a result in bytes.
const LARGEST_TEXT: usize = 256 * 1024;
/// Maximum length of a line of progress in bytes.
const LONGEST_PROGRESS: usize = 300;
/// Time between two looks at a task without events: a client may have answered elsewhere.
const TICK: Duration = Duration::from_secs(1);
/// Instructions for the client's model.
const INSTRUCTIONS: &str = "Crow is a coding agent. run_task gives it a task and waits for the answer; it works with its own tools in a directory, and keeps what it knows between the prompts of a task. If a result has questions, answer them with answer_question and go on with follow_task. task_diff shows the changes.";

/// A server of the Model Context Protocol whose tools run tasks on a host. Clones share the tasks.
#[derive(Clone)]
pub struct TaskServer {
    host: Arc<dyn AgentHost>,
    /// Directory of tasks that name none.
    cwd: PathBuf,
    version: String,
    tasks: SharedTasks,
}

/// Error of serving.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ServeError(pub(super) String);

impl TaskServer {
    /// Creates a server over a host. `cwd` is the directory of tasks that name none, `version` that of the program.
    pub fn new(host: Arc<dyn AgentHost>, cwd: PathBuf, version: impl Into<String>) -> Self {
        Self { host, cwd, version: version.into(), tasks: SharedTasks::default() }
    }

    /// Serves one client on a pair of streams until it disconnects or `stop` resolves.
    ///
    /// # Errors
    /// Fails if the client does not speak the protocol.
    pub async fn serve(
        &self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        let token = CancellationToken::new();
        let serving = async {
            let served = serve_server_with_ct(self.clone(), (input, output), token.clone()).await;
            let service = served.map_err(|error| ServeError(error.to_string()))?;
            service.waiting().await.map(drop).map_err(|error| ServeError(error.to_string()))
        };
        tokio::pin!(serving);
        tokio::select! {
            served = &mut serving => served,
            () = stop => {
                token.cancel();
                Ok(())
            }
        }
    }

    /// Waits until the agents of all tasks have ended, after the host was shut down.
    pub async fn wait_for_end(&self) {
        self.tasks.wait_for_end().await;
    }

    /// Runs a tool. The error is a text for the client's model.
    async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, String> {
        let arguments = request.arguments;
        match request.name.as_ref() {
            RUN => self.run(parse(arguments)?, context).await,
            FOLLOW => {
                let task = self.find(&parse::<TaskIdInput>(arguments)?.task)?;
                Ok(self.follow(&task, context).await)
            }
            ANSWER => {
                let AnswerInput { task, question, answer, feedback } = parse(arguments)?;
                let task = self.find(&task)?;
                let open = TaskQuestion::open(&task.handle);
                let asked = open.into_iter().find(|open| open.id().as_str() == question);
                let asked = asked.ok_or("the task has no open question of this id")?;
                asked.answer(&task.handle, &answer, feedback.as_deref())?;
                Ok(task_result(&task))
            }
            DIFF => {
                let task = self.find(&parse::<TaskIdInput>(arguments)?.task)?;
                let outcome = self.host.run_command(task.handle.session_id(), "diff", "").await;
                match outcome.map_err(|error| host_message(&error))? {
                    CommandOutcome::Shown(diff) if diff.trim().is_empty() => {
                        Ok(text_result("no changes"))
                    }
                    CommandOutcome::Shown(diff) => {
                        let diff = text::sanitise(&diff);
                        Ok(text_result(&crow_text::shorten(&diff, LARGEST_TEXT)))
                    }
                    CommandOutcome::Prompt(_) | CommandOutcome::Started(_) => {
                        Err("the changes cannot be shown".to_owned())
                    }
                }
            }
            CANCEL => {
                let task = self.find(&parse::<TaskIdInput>(arguments)?.task)?;
                task.handle.interrupt();
                Ok(text_result("cancelled; follow_task waits for the end"))
            }
            LIST => {
                let tasks: Vec<Value> = self.tasks.all().iter().map(task_json).collect();
                Ok(CallToolResult::structured(json!({ "tasks": tasks })))
            }
            other => Err(format!("there is no tool {}", text::one_line(other, 60))),
        }
    }

    /// Starts a task or continues one, and waits for its end unless the client does not want to.
    async fn run(
        &self,
        input: RunTaskInput,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, String> {
        let RunTaskInput { prompt, directory, task, agent, model, permissions, wait } = input;
        if prompt.trim().is_empty() {
            return Err("the prompt is empty".to_owned());
        }
        if directory.as_ref().is_some_and(|directory| !directory.is_absolute()) {
            return Err("the directory must be an absolute path".to_owned());
        }
        let setup = SessionSetup { agent, model, permissions, ..SessionSetup::default() };
        let handle = if let Some(id) = task {
            let setup = SessionSetup { cwd: directory, ..setup };
            self.host.open(&SessionId::new(id), setup).await
        } else {
            let cwd = directory.unwrap_or_else(|| self.cwd.clone());
            self.host.create(NewSession { cwd, id: None, setup }).await
        };
        let handle = handle.map_err(|error| host_message(&error))?;
        let task = self.tasks.start(&handle, prompt)?;
        if wait == Some(false) {
            return Ok(task_result(&task));
        }
        // Interrupts the run if the client withdraws its request, which may drop this future.
        let mut guard = TaskRunGuard { task: Some(&task) };
        let result = self.follow(&task, context).await;
        if !context.ct.is_cancelled() {
            guard.task = None;
        }
        Ok(result)
    }

    fn find(&self, id: &str) -> Result<HostedTask, String> {
        self.tasks.find(id).ok_or_else(|| {
            "this server has no task of this id; list_tasks lists them, and run_task continues earlier ones".to_owned()
        })
    }

    /// Waits until a task ends, or asks a question that this client cannot ask its user. Reports progress.
    async fn follow(
        &self,
        task: &HostedTask,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResult {
        let mut progress = task.progress.clone();
        let can_ask = context.peer.peer_info().is_some_and(|client| {
            let elicitation = client.capabilities.elicitation.as_ref();
            elicitation.is_some_and(|it| it.form.is_some() || it.url.is_none())
                && client.protocol_version.has_initialize()
        });
        let mut reported = 0;
        loop {
            let seen = progress.borrow_and_update().clone();
            if seen.calls > reported {
                reported = seen.calls;
                report(&seen, context).await;
            }
            if task.is_idle() {
                return task_result(task);
            }
            if let Some(question) = TaskQuestion::open(&task.handle).first() {
                if !can_ask || !ask(question, task, context).await {
                    return task_result(task);
                }
                continue;
            }
            tokio::select! {
                () = context.ct.cancelled() => return task_result(task),
                changed = progress.changed() => if changed.is_err() {
                    return task_result(task);
                },
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }
}

impl fmt::Debug for TaskServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskServer").field("cwd", &self.cwd).finish_non_exhaustive()
    }
}

impl ServerHandler for TaskServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("crow-agent", self.version.as_str()))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let result = self.call(request, &context).await;
        let result =
            result.unwrap_or_else(|why| CallToolResult::error(vec![ContentBlock::text(why)]));
        Ok(result.into())
    }
}

/// Interrupts the run of a task when it is dropped.
struct TaskRunGuard<'a> {
    /// `None` if the run goes on.
    task: Option<&'a HostedTask>,
}

impl Drop for TaskRunGuard<'_> {
    fn drop(&mut self) {
        if let Some(task) = self.task {
            task.handle.interrupt();
        }
    }
}

/// Lets the client's user answer a question. Returns false if the client cannot ask it, or the answer does not fit.
async fn ask(
    question: &TaskQuestion,
    task: &HostedTask,
    context: &RequestContext<RoleServer>,
) -> bool {
    let Some(form) = question.to_form() else { return false };
    let asking = context.peer.create_elicitation(form);
    tokio::pin!(asking);
    loop {
        tokio::select! {
            filled = &mut asking => {
                return match filled {
                    Ok(filled) => question.answer_form(&task.handle, filled).is_ok(),
                    Err(error) => {
                        tracing::debug!(%error, "the client asked nobody");
                        false
                    }
                };
            }
            () = context.ct.cancelled() => return false,
            // Someone else may answer: in the live view, for example.
            () = tokio::time::sleep(TICK) => {
                let open = TaskQuestion::open(&task.handle);
                if open.iter().all(|open| open.id() != question.id()) {
                    return true;
                }
            }
        }
    }
}

async fn report(progress: &TaskProgress, context: &RequestContext<RoleServer>) {
    let Some(token) = context.meta.get_progress_token() else { return };
    let message = text::one_line(&progress.activity, LONGEST_PROGRESS);
    let params = ProgressNotificationParam::new(token, f64::from(progress.calls));
    // A client that is gone gets no result either.
    drop(context.peer.notify_progress(params.with_message(message)).await);
}

/// Returns the state of a task as a result: a text for models, and the same for programs.
fn task_result(task: &HostedTask) -> CallToolResult {
    let value = task_json(task);
    let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut shown = format!("task {}: {}", field("task"), field("state"));
    let text = field("text");
    if !text.is_empty() {
        // Writing to a string cannot fail.
        let _ = write!(shown, "\n\n{text}");
    }
    for question in value.get("questions").and_then(Value::as_array).into_iter().flatten() {
        let _ = write!(shown, "\n\nIt waits for an answer: {question}");
    }
    let failed = field("state") == "failed";
    let content = vec![ContentBlock::text(shown)];
    let mut result =
        if failed { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = Some(value);
    result
}

fn task_json(task: &HostedTask) -> Value {
    let progress = task.progress.borrow().clone();
    let questions: Vec<Value> =
        TaskQuestion::open(&task.handle).iter().map(TaskQuestion::to_json).collect();
    let is_idle = task.is_idle();
    let state = match &progress.outcome {
        _ if !is_idle && !questions.is_empty() => "waiting",
        _ if !is_idle => "running",
        Some(RunOutcome::Completed { .. } | RunOutcome::NeedsInput) => "done",
        Some(RunOutcome::Stopped { .. }) => "stopped",
        Some(RunOutcome::Cancelled) => "cancelled",
        Some(RunOutcome::Failed { .. }) => "failed",
        None => "ended",
    };
    let (text, verified) = match progress.outcome {
        Some(RunOutcome::Completed { summary, verified }) if !summary.trim().is_empty() => {
            (summary, verified)
        }
        Some(RunOutcome::Completed { verified, .. }) => (progress.text, verified),
        Some(RunOutcome::Failed { error, .. }) => (error, false),
        _ => (progress.text, false),
    };
    json!({
        "task": task.handle.session_id().as_str(),
        "state": state,
        "text": crow_text::shorten(&text, LARGEST_TEXT),
        "verified": verified,
        "calls": progress.calls,
        "questions": questions,
        "directory": task.handle.metadata().crow().cwd.display().to_string(),
    })
}

fn text_result(text: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn host_message(error: &HostError) -> String {
    match error {
        HostError::Refused { message, hint } | HostError::NoCredentials { message, hint }
            if !hint.is_empty() =>
        {
            format!("{message} ({hint})")
        }
        error => error.to_string(),
    }
}
