//! Limits for all transports (unsolicited messages, open requests of the server), and the routing of progress to calls.
//!
//! [`BoundedTransport`] wraps a transport. It handles notifications itself, so they use no queue of the library:
//! progress goes to the [`CallSlot`] of its token, which is registered when the request is sent, and a change of tools
//! wakes a waiter.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crow_core::tool::Progress;
use rmcp::{
    RoleClient,
    model::{
        ClientRequest, GetExtensions as _, GetMeta as _, JsonRpcMessage, ProgressNotificationParam,
        ProgressToken, ServerNotification,
    },
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::text;

/// Maximum size in bytes of a message from a server.
pub(super) const LARGEST_MESSAGE: usize = 16 * 1024 * 1024;
/// Maximum number of unanswered requests of a server.
const MOST_REQUESTS: usize = 32;
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
    requests: AtomicUsize,
}

impl TransportState {
    /// Records why the connection ends. Only the first reason is stored.
    pub(crate) fn fail(&self, why: String) {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }

    /// Returns the recorded reason for the end of the connection.
    pub(crate) fn close_reason(&self) -> Option<String> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Removes a call, so that its progress is no longer routed.
    pub(crate) fn forget(&self, token: &ProgressToken) {
        self.calls().remove(token);
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<ProgressToken, CallSlot>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_progress(&self, params: &ProgressNotificationParam) {
        let call = self.calls().get(&params.progress_token).cloned();
        if let Some(call) = call {
            call.0.beat.notify_one();
            call.0.progress.report(report(params));
        }
    }
}

/// A call in flight. It travels with the request and is registered when that is sent, so no progress is missed.
#[derive(Clone)]
pub(crate) struct CallSlot(Arc<CallSlotState>);

struct CallSlotState {
    progress: Progress,
    beat: Notify,
    sent: AtomicBool,
}

impl CallSlot {
    pub(crate) fn new(progress: Progress) -> Self {
        Self(Arc::new(CallSlotState {
            progress,
            beat: Notify::new(),
            sent: AtomicBool::new(false),
        }))
    }

    /// Waits until the server reports progress.
    pub(crate) async fn wait_for_progress(&self) {
        self.0.beat.notified().await;
    }

    /// Returns true if the server may have seen the call.
    pub(crate) fn was_sent(&self) -> bool {
        self.0.sent.load(Ordering::Acquire)
    }
}

impl fmt::Debug for CallSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallSlot").field("sent", &self.was_sent()).finish()
    }
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
        } else if let ServerNotification::ToolListChangedNotification(_) = notification {
            self.transport_state.changed.notify_one();
        }
        // Notifications about logs, resources, prompts and tasks are ignored.
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for BoundedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (mut slot, mut is_answer) = (None, false);
        match &item {
            JsonRpcMessage::Request(request) => {
                if let ClientRequest::CallToolRequest(call) = &request.request {
                    slot = call.extensions().get::<CallSlot>().cloned();
                    let token = request.request.get_meta().get_progress_token();
                    if let (Some(slot), Some(token)) = (&slot, token) {
                        self.transport_state.calls().insert(token, slot.clone());
                    }
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => is_answer = true,
            JsonRpcMessage::Notification(_) => {}
        }
        let wire = Arc::clone(&self.transport_state);
        let send = self.inner.send(item);
        async move {
            if let Some(slot) = &slot {
                slot.0.sent.store(true, Ordering::Release);
            }
            let result = send.await;
            if is_answer {
                wire.requests.fetch_sub(1, Ordering::AcqRel);
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
                JsonRpcMessage::Notification(message) => {
                    self.take(&message.notification);
                    self.unasked += 1;
                }
                JsonRpcMessage::Request(_) => {
                    self.unasked += 1;
                    if self.transport_state.requests.fetch_add(1, Ordering::AcqRel) >= MOST_REQUESTS
                    {
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
