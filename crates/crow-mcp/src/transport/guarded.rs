//! Limits for all transports (unsolicited messages, open requests of the server), and the routing of progress to calls.
//!
//! [`BoundedTransport`] wraps a transport. It handles notifications itself, so they use no queue of the library:
//! progress goes to the [`CallSlot`] of its token, which is registered when the request is sent, and a change of tools
//! wakes a waiter.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crow_core::tool::ToolContext;
use rmcp::{
    RoleClient,
    model::{
        ClientRequest, Extensions, GetExtensions as _, GetMeta as _, JsonRpcMessage,
        ProgressNotificationParam, ProgressToken, RequestId, ServerNotification,
    },
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{oauth::LoginChallenge, text};

/// Maximum size in bytes of a message from a server.
pub(super) const LARGEST_MESSAGE: usize = 16 * 1024 * 1024;
/// Maximum number of unanswered requests of a server.
const MOST_REQUESTS: usize = 32;
/// Maximum number of questions to the user during a call.
const MOST_QUESTIONS: usize = 30;
/// Number of unsolicited messages after which reading pauses, so that a flooding server is slowed down by its full
/// pipe.
const UNASKED: usize = 256;
/// Length of that pause.
const PAUSE: Duration = Duration::from_millis(10);
/// Maximum length of a line of progress.
const LONGEST_REPORT: usize = 500;

/// State that a transport shares with its connection.
#[derive(Debug, Default)]
pub(crate) struct TransportState {
    /// Reason for the end of the connection.
    why: Mutex<Option<String>>,
    /// Cancelled when no more messages arrive.
    pub(crate) closed: CancellationToken,
    /// Notified when the server reports that its tools changed.
    pub(crate) changed: Notify,
    calls: Mutex<HashMap<ProgressToken, CallSlot>>,
    /// Number of calls begun.
    begun: AtomicU64,
    /// Number of questions of the server to the user that are open.
    questions: AtomicUsize,
    /// Requests of the server that are not answered.
    requests: Mutex<HashSet<RequestId>>,
    /// The last answer by which the server asked for a login.
    challenge: Mutex<Option<LoginChallenge>>,
}

impl TransportState {
    /// Records that the server asked for a login.
    pub(super) fn set_challenge(&self, challenge: Option<LoginChallenge>) {
        *self.challenge.lock().unwrap_or_else(PoisonError::into_inner) = challenge;
    }

    /// Returns the last answer by which the server asked for a login, once.
    pub(crate) fn take_challenge(&self) -> Option<LoginChallenge> {
        self.challenge.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Records why the connection ends. Only the first reason is stored.
    pub(crate) fn fail(&self, why: String) {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }

    /// Returns the recorded reason for the end of the connection.
    pub(crate) fn close_reason(&self) -> Option<String> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins a call with this context: progress goes there, and questions of the server are asked there.
    pub(crate) fn begin_call(self: &Arc<Self>, ctx: Option<ToolContext>) -> CallGuard {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let slot = CallSlot::new(number, ctx, Arc::clone(self));
        CallGuard { slot, transport_state: Arc::clone(self) }
    }

    /// Returns the call in flight that began last, of those whose user can be asked. A server does not say which call
    /// its questions belong to.
    pub(crate) fn last_call(&self) -> Option<CallSlot> {
        let can_ask =
            |call: &&CallSlot| call.context().is_some_and(|ctx| ctx.agent.questions.is_some());
        self.calls().values().filter(can_ask).max_by_key(|call| call.0.number).cloned()
    }

    /// Registers a call that is about to be sent, unless nobody waits for it any more.
    fn register(&self, token: ProgressToken, slot: &CallSlot) {
        let mut calls = self.calls();
        if !slot.0.ended.load(Ordering::Relaxed) {
            calls.insert(token, slot.clone());
        }
    }

    fn requests(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<ProgressToken, CallSlot>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_progress(&self, params: &ProgressNotificationParam) {
        let call = self.calls().get(&params.progress_token).cloned();
        if let Some(call) = call {
            call.0.beat.notify_one();
            if let Some(ctx) = &call.0.ctx {
                ctx.progress.report(report(params));
            }
        }
    }
}

/// A call in flight. It travels with the request and is registered when that is sent, so no progress is missed.
#[derive(Clone)]
pub(crate) struct CallSlot(Arc<CallSlotState>);

struct CallSlotState {
    /// Order of the calls.
    number: u64,
    /// `None` for a request of the user.
    ctx: Option<ToolContext>,
    beat: Notify,
    /// Number of questions to the user for this call so far.
    asked: AtomicUsize,
    /// Cancelled when nobody waits for the call any more.
    over: CancellationToken,
    transport_state: Arc<TransportState>,
    sent: AtomicBool,
    /// True if nobody waits for the call. Changed under the lock of the registered calls.
    ended: AtomicBool,
}

/// Guard of a call. Dropping it ends the routing of progress, also if the request is sent only later.
#[derive(Debug)]
pub(crate) struct CallGuard {
    slot: CallSlot,
    transport_state: Arc<TransportState>,
}

impl CallGuard {
    pub(crate) fn slot(&self) -> &CallSlot {
        &self.slot
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        let mut calls = self.transport_state.calls();
        self.slot.0.ended.store(true, Ordering::Relaxed);
        self.slot.0.over.cancel();
        calls.retain(|_, call| !Arc::ptr_eq(&call.0, &self.slot.0));
    }
}

impl CallSlot {
    fn new(number: u64, ctx: Option<ToolContext>, transport_state: Arc<TransportState>) -> Self {
        Self(Arc::new(CallSlotState {
            number,
            ctx,
            beat: Notify::new(),
            asked: AtomicUsize::new(0),
            over: CancellationToken::new(),
            transport_state,
            sent: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        }))
    }

    /// Waits until the server reports progress.
    pub(crate) async fn wait_for_progress(&self) {
        self.0.beat.notified().await;
    }

    /// Returns the context of the call; `None` for a request of the user.
    pub(crate) fn context(&self) -> Option<&ToolContext> {
        self.0.ctx.as_ref()
    }

    /// Makes a request travel with this slot.
    pub(crate) fn attach(&self, request: &mut ClientRequest) {
        if let Some(extensions) = extensions_of(request) {
            extensions.insert(self.clone());
        }
    }

    /// Runs `question`, during which the calls of the connection wait for the user and their timeouts do not pass. Returns
    /// `None` if the call ends meanwhile, or the server asked too often.
    pub(crate) async fn ask<T>(&self, question: impl Future<Output = T>) -> Option<T> {
        if self.0.asked.fetch_add(1, Ordering::AcqRel) >= MOST_QUESTIONS {
            return None;
        }
        self.0.transport_state.questions.fetch_add(1, Ordering::AcqRel);
        // Also if the question is dropped.
        let _end = ServerQuestionGuard(&self.0);
        self.0.over.run_until_cancelled(question).await
    }

    /// Returns true while the server asks a user.
    pub(crate) fn is_asking(&self) -> bool {
        self.0.transport_state.questions.load(Ordering::Acquire) > 0
    }

    /// Returns true if the server may have seen the call.
    pub(crate) fn was_sent(&self) -> bool {
        self.0.sent.load(Ordering::Acquire)
    }
}

/// Ends a question of a call when it is dropped. The timeout of silence begins anew.
struct ServerQuestionGuard<'a>(&'a CallSlotState);

impl Drop for ServerQuestionGuard<'_> {
    fn drop(&mut self) {
        self.0.transport_state.questions.fetch_sub(1, Ordering::AcqRel);
        self.0.beat.notify_one();
    }
}

impl fmt::Debug for CallSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallSlot").field("sent", &self.was_sent()).finish()
    }
}

/// Returns the slot that travels with a request.
fn slot_of(request: &ClientRequest) -> Option<CallSlot> {
    let extensions = match request {
        ClientRequest::CallToolRequest(request) => request.extensions(),
        ClientRequest::GetPromptRequest(request) => request.extensions(),
        ClientRequest::ReadResourceRequest(request) => request.extensions(),
        ClientRequest::ListResourcesRequest(request) => &request.extensions,
        ClientRequest::ListResourceTemplatesRequest(request) => &request.extensions,
        ClientRequest::GetTaskRequest(request) => request.extensions(),
        ClientRequest::UpdateTaskRequest(request) => request.extensions(),
        _ => return None,
    };
    extensions.get::<CallSlot>().cloned()
}

/// Returns the extensions of a request that is made with a slot.
fn extensions_of(request: &mut ClientRequest) -> Option<&mut Extensions> {
    Some(match request {
        ClientRequest::CallToolRequest(request) => request.extensions_mut(),
        ClientRequest::GetPromptRequest(request) => request.extensions_mut(),
        ClientRequest::ReadResourceRequest(request) => request.extensions_mut(),
        ClientRequest::ListResourcesRequest(request) => &mut request.extensions,
        ClientRequest::ListResourceTemplatesRequest(request) => &mut request.extensions,
        ClientRequest::GetTaskRequest(request) => request.extensions_mut(),
        ClientRequest::UpdateTaskRequest(request) => request.extensions_mut(),
        _ => return None,
    })
}

/// A transport with limits on what a server may send.
pub(crate) struct BoundedTransport<T> {
    inner: T,
    transport_state: Arc<TransportState>,
    unasked: usize,
}

impl<T> BoundedTransport<T> {
    pub(crate) fn new(inner: T, wire: Arc<TransportState>) -> Self {
        Self { inner, transport_state: wire, unasked: 0 }
    }

    /// Handles a notification in place, without a queue or task.
    fn take(&self, notification: &ServerNotification) {
        if let ServerNotification::ProgressNotification(progress) = notification {
            self.transport_state.on_progress(&progress.params);
        } else if let ServerNotification::ToolListChangedNotification(_)
        | ServerNotification::PromptListChangedNotification(_) = notification
        {
            self.transport_state.changed.notify_one();
        }
        // Notifications about logs, resources and tasks are ignored.
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for BoundedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (mut slot, mut answered) = (None, None);
        match &item {
            JsonRpcMessage::Request(request) => {
                slot = slot_of(&request.request);
                let token = request.request.get_meta().get_progress_token();
                if let (Some(slot), Some(token)) = (&slot, token) {
                    self.transport_state.register(token, slot);
                }
            }
            JsonRpcMessage::Response(response) => answered = Some(response.id.clone()),
            JsonRpcMessage::Error(error) => answered.clone_from(&error.id),
            JsonRpcMessage::Notification(_) => {}
        }
        let wire = Arc::clone(&self.transport_state);
        let send = self.inner.send(item);
        async move {
            if let Some(slot) = &slot {
                slot.0.sent.store(true, Ordering::Release);
            }
            let result = send.await;
            if let Some(id) = answered {
                wire.requests().remove(&id);
            }
            result
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if self.unasked >= UNASKED {
                tokio::time::sleep(PAUSE).await;
                self.unasked = 0;
            }
            let Some(message) = self.inner.receive().await else {
                self.transport_state.closed.cancel();
                return None;
            };
            match &message {
                JsonRpcMessage::Notification(notification) => {
                    self.unasked += 1;
                    if let ServerNotification::CancelledNotification(cancelled) =
                        &notification.notification
                    {
                        // The library withdraws the request of the server, and does not answer it.
                        if let Some(id) = &cancelled.params.request_id {
                            self.transport_state.requests().remove(id);
                        }
                        return Some(message);
                    }
                    self.take(&notification.notification);
                }
                JsonRpcMessage::Request(request) => {
                    self.unasked += 1;
                    let count = {
                        let mut requests = self.transport_state.requests();
                        requests.insert(request.id.clone());
                        requests.len()
                    };
                    if count > MOST_REQUESTS {
                        self.transport_state
                            .fail("it sends requests without reading the answers".to_owned());
                        self.transport_state.closed.cancel();
                        return None;
                    }
                    return Some(message);
                }
                JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => return Some(message),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport_state.closed.cancel();
        self.inner.close().await
    }
}

/// Formats a progress report as one line.
fn report(params: &ProgressNotificationParam) -> String {
    let message = params.message.as_deref().map(|text| text::one_line(text, LONGEST_REPORT));
    let count = match params.total {
        Some(total) => format!("{}/{total}", params.progress),
        None => params.progress.to_string(),
    };
    match message.filter(|text| !text.is_empty()) {
        Some(message) => format!("{count} {message}\n"),
        None => format!("{count}\n"),
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, io};

    use crow_core::workspace::Workspace;
    use crow_testkit::tools::{agent_context, tool_context};
    use rmcp::model::{CallToolRequest, CallToolRequestParams, NumberOrString};

    use super::*;

    /// A transport whose server reads nothing.
    struct FullPipe;

    impl Transport<RoleClient> for FullPipe {
        type Error = io::Error;

        fn send(
            &mut self,
            _item: TxJsonRpcMessage<RoleClient>,
        ) -> impl Future<Output = io::Result<()>> + Send + 'static {
            pending()
        }

        async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
            pending().await
        }

        async fn close(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn request(slot: &CallSlot) -> TxJsonRpcMessage<RoleClient> {
        let mut request = CallToolRequest::new(CallToolRequestParams::new("wait"));
        request.extensions_mut().insert(slot.clone());
        let mut request = ClientRequest::CallToolRequest(request);
        request.get_meta_mut().set_progress_token(ProgressToken(NumberOrString::Number(1)));
        JsonRpcMessage::request(request, NumberOrString::Number(1))
    }

    #[tokio::test]
    async fn a_call_that_is_cancelled_while_it_is_sent_leaves_nothing() {
        let state = Arc::<TransportState>::default();
        let mut transport = BoundedTransport::new(FullPipe, Arc::clone(&state));
        let call = state.begin_call(Some(tool_context(agent_context(Workspace::new("/p")))));
        let send = transport.send(request(call.slot()));
        assert_eq!(state.calls().len(), 1);
        drop(call);
        assert_eq!(state.calls().len(), 0);
        drop(send);
    }

    #[tokio::test]
    async fn a_call_that_is_cancelled_before_it_is_sent_is_not_registered() {
        let state = Arc::<TransportState>::default();
        let mut transport = BoundedTransport::new(FullPipe, Arc::clone(&state));
        let call = state.begin_call(Some(tool_context(agent_context(Workspace::new("/p")))));
        let request = request(call.slot());
        drop(call);
        drop(transport.send(request));
        assert_eq!(state.calls().len(), 0);
    }
}
