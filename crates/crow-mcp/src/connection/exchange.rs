//! Requests to a server, and what may come instead of their results: questions to the user, and tasks.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crow_core::{capability::HttpError, tool::ToolContext};
use rmcp::{
    RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, CancelTaskParams,
        CancelTaskRequest, ClientRequest, ElicitRequestParams, ElicitationAction, ErrorCode,
        GetMeta as _, GetPromptRequest, GetPromptRequestParams, GetPromptResult, GetTaskParams,
        GetTaskRequest, InputRequiredResult, InputResponses, JsonObject, ReadResourceRequest,
        ReadResourceRequestParams, ReadResourceResult, ServerResult, Task, TaskPayload,
        UpdateTaskParams, UpdateTaskRequest,
    },
    service::{PeerRequestOptions, RequestHandle, ServiceError},
    transport::streamable_http_client::StreamableHttpError,
};
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::server_connection::{LONGEST, ServerConnection};
use crate::{
    elicitation::confirm_page_done,
    failure::{CallError, stderr_excerpt},
    oauth::LoginChallenge,
    settings::McpSettings,
    text,
    transport::{CallSlot, LINK_FAILED, TransportError, error_text},
};

/// Timeout of sending a cancellation.
const CANCEL: Duration = Duration::from_secs(2);
/// Maximum number of times that a server may ask for input during a request.
const MOST_ROUNDS: u32 = 10;
/// Delay before a request is repeated that the server was not ready for.
const BETWEEN_ROUNDS: Duration = Duration::from_secs(1);
/// Code of the error by which a server wants pages visited before a call.
const PAGES_REQUIRED: ErrorCode = ErrorCode(-32042);
/// Maximum number of pages that a server may want visited before a call.
const MOST_PAGES_OPENED: usize = 5;
/// Delay between two questions for the state of a task, if the server names none.
const POLL: Duration = Duration::from_secs(1);
/// Bounds of the delay that a server may name.
const POLL_BOUNDS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));
/// Number of failed questions for the state of a task, in a row, that do not end it.
const FAILED_POLLS: u32 = 5;
/// Maximum number of questions of a task to the user.
const MOST_TASK_QUESTIONS: usize = 30;
/// Maximum duration of a task.
const LONGEST_TASK: Duration = Duration::from_hours(24);

/// Whom a request is made for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requester<'a> {
    /// The call of the agent, where the user is asked; none for a request of the user.
    pub(crate) ctx: Option<&'a ToolContext>,
    pub(crate) cancel: &'a CancellationToken,
}

impl<'a> Requester<'a> {
    /// Makes a request for a call of the agent.
    pub(crate) fn of_call(ctx: &'a ToolContext) -> Self {
        Self { ctx: Some(ctx), cancel: &ctx.cancellation }
    }
}

/// An answer of a server.
enum Answer {
    Result(Box<ServerResult>),
    /// The server needs input, and the request is to be repeated with it.
    InputRequired(InputRequiredResult),
    /// The user is to visit these pages, and the request is to be repeated.
    PagesRequired(Vec<ElicitRequestParams>),
}

impl ServerConnection {
    /// Calls a tool. Returns at once on a cancellation or timeout; the server is notified in the background.
    ///
    /// A server may make a task of the call, whose result is awaited.
    pub(crate) async fn call(
        &self,
        name: &str,
        arguments: &JsonObject,
        settings: &McpSettings,
        ctx: &ToolContext,
    ) -> Result<CallToolResult, CallError> {
        let requester = Requester::of_call(ctx);
        let request = |input: &RoundInput| {
            let mut params =
                CallToolRequestParams::new(name.to_owned()).with_arguments(arguments.clone());
            (params.input_responses, params.request_state) = input.clone();
            let mut request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
            if let Some(span) = ctx.trace_context() {
                request.get_meta_mut().insert("traceparent".to_owned(), span.to_string().into());
            }
            request
        };
        match self.exchange(request, settings, requester).await? {
            ServerResult::CallToolResult(result) => Ok(result),
            ServerResult::CreateTaskResult(created) => {
                // The call was made: it must not be made again.
                self.await_task(created.task, settings, ctx).await.map_err(CallError::after_answer)
            }
            _ => Err(CallError::UnexpectedAnswer),
        }
    }

    /// Gets a prompt.
    pub(crate) async fn get_prompt(
        &self,
        name: &str,
        arguments: &JsonObject,
        settings: &McpSettings,
        requester: Requester<'_>,
    ) -> Result<GetPromptResult, CallError> {
        let request = |input: &RoundInput| {
            let mut params = GetPromptRequestParams::new(name);
            params.arguments = (!arguments.is_empty()).then(|| arguments.clone());
            (params.input_responses, params.request_state) = input.clone();
            ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
        };
        match self.exchange(request, settings, requester).await? {
            ServerResult::GetPromptResult(result) => Ok(result),
            _ => Err(CallError::UnexpectedAnswer),
        }
    }

    /// Reads a resource.
    pub(crate) async fn read_resource(
        &self,
        uri: &str,
        settings: &McpSettings,
        requester: Requester<'_>,
    ) -> Result<ReadResourceResult, CallError> {
        let request = |input: &RoundInput| {
            let mut params = ReadResourceRequestParams::new(uri);
            (params.input_responses, params.request_state) = input.clone();
            ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
        };
        match self.exchange(request, settings, requester).await? {
            ServerResult::ReadResourceResult(result) => Ok(result),
            _ => Err(CallError::UnexpectedAnswer),
        }
    }

    /// Sends a request until the server returns a result. It may ask for input instead; then the request is repeated
    /// with the answers of the user.
    pub(super) async fn exchange(
        &self,
        request: impl Fn(&RoundInput) -> ClientRequest,
        settings: &McpSettings,
        requester: Requester<'_>,
    ) -> Result<ServerResult, CallError> {
        let call = self.state.transport_state.begin_call(requester.ctx.cloned());
        let mut input = RoundInput::default();
        let (mut rounds, mut is_first) = (0, true);
        let deadline = Instant::now() + settings.call_limit();
        loop {
            let sent = self.send(request(&input), call.slot(), settings, requester).await;
            // The user must not be asked again because a later round failed.
            let answer = if is_first { sent? } else { sent.map_err(CallError::after_answer)? };
            is_first = false;
            match answer {
                Answer::Result(result) => return Ok(*result),
                Answer::InputRequired(required) => {
                    let is_only_state =
                        required.input_requests.as_ref().is_none_or(BTreeMap::is_empty);
                    input = self.give_input(required, call.slot(), requester).await?;
                    if is_only_state {
                        // The server is not ready yet.
                        if Instant::now() > deadline {
                            let why = "the server was not ready in time".to_owned();
                            return Err(CallError::TimedOut(why));
                        }
                        continue;
                    }
                }
                Answer::PagesRequired(pages) => self.open_pages(&pages, call.slot()).await?,
            }
            rounds += 1;
            if rounds >= MOST_ROUNDS {
                return Err(CallError::TooManyRounds);
            }
        }
    }

    /// Lets the user answer what a server asks for in place of a result.
    async fn give_input(
        &self,
        required: InputRequiredResult,
        slot: &CallSlot,
        requester: Requester<'_>,
    ) -> Result<RoundInput, CallError> {
        let client = self.state.client.as_ref().ok_or(CallError::InputRequired)?;
        let requests = required.input_requests.unwrap_or_default();
        if requests.is_empty() {
            if required.request_state.is_none() {
                return Err(CallError::UnexpectedAnswer);
            }
            requester.cancel.run_until_cancelled(sleep(BETWEEN_ROUNDS)).await;
        }
        let responses = client.respond(requests, slot).await?;
        if requester.cancel.is_cancelled() {
            return Err(CallError::Cancelled);
        }
        Ok(((!responses.is_empty()).then_some(responses), required.request_state))
    }

    /// Lets the user open the pages that a server wants visited before it runs a call. Fails if the user declines.
    async fn open_pages(
        &self,
        pages: &[ElicitRequestParams],
        slot: &CallSlot,
    ) -> Result<(), CallError> {
        let (Some(client), Some(ctx)) = (&self.state.client, slot.context()) else {
            return Err(CallError::InputRequired);
        };
        for page in pages {
            if !matches!(page, ElicitRequestParams::UrlElicitationParams { .. }) {
                return Err(CallError::InputRequired);
            }
            if client.elicit(page, Some(slot)).await.action != ElicitationAction::Accept {
                return Err(CallError::Declined);
            }
        }
        let is_done = slot.ask(confirm_page_done(&self.state.name, ctx)).await;
        if is_done == Some(true) { Ok(()) } else { Err(CallError::Declined) }
    }

    /// Waits for the result of a task. The task is cancelled if its result is no longer awaited.
    async fn await_task(
        &self,
        mut task: Task,
        settings: &McpSettings,
        ctx: &ToolContext,
    ) -> Result<CallToolResult, CallError> {
        let requester = Requester::of_call(ctx);
        let mut cancel_guard =
            TaskCancellation { connection: self, id: Some(task.task_id.clone()) };
        // Questions and progress of the task belong to this call.
        let call = self.state.transport_state.begin_call(Some(ctx.clone()));
        let deadline = Instant::now() + LONGEST_TASK;
        let (mut shown, mut answered, mut failures) = (None, BTreeSet::new(), 0);
        loop {
            if let Some(message) = task.status_message.take()
                && shown.as_ref() != Some(&message)
            {
                ctx.progress.report(format!("{}\n", text::one_line(&message, LONGEST)));
                shown = Some(message);
            }
            let (least, most) = POLL_BOUNDS;
            let pause =
                task.poll_interval_ms.map_or(POLL, Duration::from_millis).clamp(least, most);
            if ctx.cancellation.run_until_cancelled(sleep(pause)).await.is_none() {
                return Err(CallError::Cancelled);
            }
            if Instant::now() > deadline {
                return Err(CallError::TimedOut("the task took more than a day".to_owned()));
            }
            let get = |_: &RoundInput| {
                let params = GetTaskParams::new(task.task_id.clone());
                ClientRequest::GetTaskRequest(GetTaskRequest::new(params))
            };
            let detailed = match self.exchange(get, settings, requester).await {
                Ok(ServerResult::GetTaskResult(state)) => state.task,
                Ok(_) => return Err(CallError::UnexpectedAnswer),
                // A server that is busy for a moment does not end the task.
                Err(CallError::Refused(_) | CallError::TimedOut(_)) if failures < FAILED_POLLS => {
                    failures += 1;
                    continue;
                }
                Err(error) => return Err(error),
            };
            failures = 0;
            match detailed.payload {
                TaskPayload::Working => {}
                TaskPayload::InputRequired { mut input_requests } => {
                    // A server may show a question again until it has processed the answer.
                    input_requests.retain(|id, _| !answered.contains(id));
                    answered.extend(input_requests.keys().cloned());
                    if answered.len() > MOST_TASK_QUESTIONS {
                        return Err(CallError::TooManyRounds);
                    }
                    if !input_requests.is_empty() {
                        let client = self.state.client.as_ref().ok_or(CallError::InputRequired)?;
                        let responses = client.respond(input_requests, call.slot()).await?;
                        let update = |_: &RoundInput| {
                            let id = task.task_id.clone();
                            let params = UpdateTaskParams::new(id, responses.clone());
                            ClientRequest::UpdateTaskRequest(UpdateTaskRequest::new(params))
                        };
                        self.exchange(update, settings, requester).await?;
                    }
                }
                TaskPayload::Completed { result } => {
                    cancel_guard.id = None;
                    let result = serde_json::from_value(Value::Object(result));
                    return result.map_err(|_| CallError::UnexpectedAnswer);
                }
                TaskPayload::Failed { error } => {
                    cancel_guard.id = None;
                    let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
                    return Err(CallError::Refused(text::one_line(message, LONGEST)));
                }
                TaskPayload::Cancelled => {
                    cancel_guard.id = None;
                    return Err(CallError::Refused("the server cancelled the task".to_owned()));
                }
                _ => return Err(CallError::UnexpectedAnswer),
            }
            task = detailed.task;
        }
    }

    /// Tells the server in the background that a task is no longer wanted.
    fn cancel_task(&self, id: &str) {
        let params = CancelTaskParams::new(id);
        let request = ClientRequest::CancelTaskRequest(CancelTaskRequest::new(params));
        let peer = self.peer.clone();
        self.tasks.spawn(async move {
            drop(timeout(CANCEL, peer.send_request(request)).await);
        });
    }

    /// Sends a request once.
    async fn send(
        &self,
        mut request: ClientRequest,
        slot: &CallSlot,
        settings: &McpSettings,
        requester: Requester<'_>,
    ) -> Result<Answer, CallError> {
        slot.attach(&mut request);
        let options = PeerRequestOptions::no_options();
        let send = self.peer.send_cancellable_request(request, options);
        let handle = tokio::select! {
            biased;
            () = requester.cancel.cancelled() => return Err(CallError::Cancelled),
            handle = timeout(settings.tool_timeout, send) => match handle {
                Ok(Ok(handle)) => handle,
                Ok(Err(_)) => return Err(CallError::Unsent(self.state.close_message().await)),
                Err(_) => return Err(CallError::Unsent("it does not read its input".to_owned())),
            },
        };
        self.answer(handle, slot, settings, requester.cancel).await
    }

    /// Waits for the answer, a cancellation, a timeout or the close. Progress restarts the timeout of silence, not the
    /// total one.
    async fn answer(
        &self,
        mut handle: RequestHandle<RoleClient>,
        slot: &CallSlot,
        settings: &McpSettings,
        cancel: &CancellationToken,
    ) -> Result<Answer, CallError> {
        let mut deadline = Instant::now() + settings.call_limit();
        let mut silent_until = Instant::now() + settings.tool_timeout;
        let late = |text: String| Err(CallError::TimedOut(text));
        let outcome = loop {
            tokio::select! {
                biased;
                answer = &mut handle.rx => {
                    return match answer {
                        Ok(answer) => self.to_answer(answer, slot).await,
                        Err(_) => Err(self.lost(slot).await),
                    };
                }
                () = cancel.cancelled() => break Err(CallError::Cancelled),
                () = slot.wait_for_progress() => silent_until = Instant::now() + settings.tool_timeout,
                () = sleep_until(silent_until.min(deadline)) => {
                    if slot.is_asking() {
                        // The user takes the time, not the server.
                        silent_until = Instant::now() + settings.tool_timeout;
                        deadline = Instant::now() + settings.call_limit();
                        continue;
                    }
                    break late(if silent_until < deadline {
                        let limit = settings.tool_timeout.as_secs_f64();
                        format!("the server sent nothing for {limit} s, so the call was cancelled")
                    } else {
                        let limit = settings.call_limit().as_secs_f64();
                        format!("the call took more than {limit} s and was cancelled")
                    });
                }
                // Polled last: messages that arrived before the close were handled first.
                () = self.state.transport_state.closed.cancelled() => return Err(self.lost(slot).await),
            }
        };
        let reason = match &outcome {
            Err(CallError::TimedOut(_)) => "timeout",
            Ok(_) | Err(_) => "the user cancelled it",
        };
        // Sent in the background: the server may not be reading.
        self.tasks.spawn(async move {
            drop(timeout(CANCEL, handle.cancel(Some(reason.to_owned()))).await);
        });
        outcome
    }

    async fn to_answer(
        &self,
        answer: Result<ServerResult, ServiceError>,
        slot: &CallSlot,
    ) -> Result<Answer, CallError> {
        match answer {
            Ok(ServerResult::InputRequiredResult(input)) => Ok(Answer::InputRequired(input)),
            Ok(result) => Ok(Answer::Result(Box::new(result))),
            Err(ServiceError::McpError(error)) if error.code == PAGES_REQUIRED => {
                let pages = error.data.as_ref().and_then(|data| data.get("elicitations"));
                let pages = pages.cloned().and_then(|pages| serde_json::from_value(pages).ok());
                let pages: Vec<ElicitRequestParams> = pages.unwrap_or_default();
                if pages.is_empty() || pages.len() > MOST_PAGES_OPENED {
                    return Err(CallError::Refused(text::one_line(&error.message, LONGEST)));
                }
                Ok(Answer::PagesRequired(pages))
            }
            Err(ServiceError::UnexpectedResponse) => Err(CallError::UnexpectedAnswer),
            Err(ServiceError::McpError(error)) if error.code == LINK_FAILED => {
                Err(CallError::LinkFailed(text::one_line(&error.message, LONGEST)))
            }
            Err(ServiceError::McpError(error)) => {
                Err(CallError::Refused(text::one_line(&error.message, LONGEST)))
            }
            Err(ServiceError::TransportSend(error)) => {
                let why = text::one_line(&error_text(error.error.as_ref()), LONGEST);
                let http = match error.error.downcast_ref() {
                    Some(TransportError::Http(http)) => Some(http),
                    Some(TransportError::Stream(_)) | None => None,
                };
                if let Some(challenge) = http.and_then(LoginChallenge::of) {
                    return Err(CallError::LoginRequired(challenge));
                }
                // If the request was never sent, the connection is closed, so that the caller retries on a new one.
                let nothing_sent = matches!(
                    http,
                    Some(StreamableHttpError::Client(
                        HttpError::Connect(_) | HttpError::Request(_) | HttpError::NotPublic(_)
                    ))
                );
                if nothing_sent {
                    self.state.transport_state.fail(why.clone());
                    self.state.transport_state.closed.cancel();
                    return Err(CallError::Unsent(why));
                }
                Err(CallError::Lost(why))
            }
            Err(_) => Err(self.lost(slot).await),
        }
    }

    /// Returns the error of a call whose connection closed: `Lost` if the server may have seen the call, otherwise
    /// `Unsent`.
    async fn lost(&self, slot: &CallSlot) -> CallError {
        let why = self.state.close_message().await;
        let why = format!("{why}{}", stderr_excerpt(&self.state.errors.to_text()));
        if slot.was_sent() { CallError::Lost(why) } else { CallError::Unsent(why) }
    }
}

/// Cancels a task when it is dropped, unless the task has ended.
struct TaskCancellation<'a> {
    connection: &'a ServerConnection,
    /// `None` once the task has ended.
    id: Option<String>,
}

impl Drop for TaskCancellation<'_> {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            self.connection.cancel_task(id);
        }
    }
}

/// The answers with which a request is repeated, and the state that the server wants back.
type RoundInput = (Option<InputResponses>, Option<String>);
