//! Limits of every connection: unsolicited messages, open requests of the server, and the routing of progress.

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

/// The largest message that is taken from a server.
pub(super) const LARGEST_MESSAGE: usize = 16 * 1024 * 1024;
/// The most requests of a server that may be unanswered.
const MOST_REQUESTS: usize = 32;
/// After so many messages that nobody asked for there is a pause: then a server that floods is slowed down by its own pipe.
const UNASKED: usize = 256;
/// The pause.
const PAUSE: Duration = Duration::from_millis(10);
/// The longest line of progress.
const LONGEST_REPORT: usize = 500;

/// The state of a connection beside its messages.
#[derive(Debug, Default)]
pub(crate) struct TransportState {
    /// Why it is no more.
    why: Mutex<Option<String>>,
    /// Cancelled when nothing comes any more.
    pub(crate) closed: CancellationToken,
    /// Woken when the server says that its tools changed.
    pub(crate) changed: Notify,
    calls: Mutex<HashMap<ProgressToken, CallSlot>>,
    requests: AtomicUsize,
}

impl TransportState {
    /// Notes why the connection ends. The first reason counts.
    pub(crate) fn fail(&self, why: String) {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }

    /// Returns why the connection ended, if that is known.
    pub(crate) fn why(&self) -> Option<String> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets a call: nobody waits for its progress any more.
    pub(crate) fn forget(&self, token: &ProgressToken) {
        self.calls().remove(token);
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<ProgressToken, CallSlot>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_progress(&self, told: &ProgressNotificationParam) {
        let call = self.calls().get(&told.progress_token).cloned();
        if let Some(call) = call {
            call.0.beat.notify_one();
            call.0.progress.report(report(told));
        }
    }
}

/// A call on its way. It travels with the request, so that no progress is missed.
#[derive(Clone)]
pub(crate) struct CallSlot(Arc<MessageSlot>);

struct MessageSlot {
    progress: Progress,
    beat: Notify,
    sent: AtomicBool,
}

impl CallSlot {
    pub(crate) fn new(progress: Progress) -> Self {
        Self(Arc::new(MessageSlot { progress, beat: Notify::new(), sent: AtomicBool::new(false) }))
    }

    /// Waits until the server reports progress.
    pub(crate) async fn beat(&self) {
        self.0.beat.notified().await;
    }

    /// Returns whether the server may have seen the call.
    pub(crate) fn was_sent(&self) -> bool {
        self.0.sent.load(Ordering::Acquire)
    }
}

impl fmt::Debug for CallSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallSlot").field("sent", &self.was_sent()).finish()
    }
}

/// A transport on which a server can say only so much.
pub(crate) struct BoundedTransport<T> {
    inner: T,
    wire: Arc<TransportState>,
    unasked: usize,
}

impl<T> BoundedTransport<T> {
    pub(crate) fn new(inner: T, wire: Arc<TransportState>) -> Self {
        Self { inner, wire, unasked: 0 }
    }

    /// Takes a message that nobody asked for. It comes to no queue and no task.
    fn take(&self, notification: &ServerNotification) {
        if let ServerNotification::ProgressNotification(told) = notification {
            self.wire.on_progress(&told.params);
        } else if let ServerNotification::ToolListChangedNotification(_) = notification {
            self.wire.changed.notify_one();
        }
        // Of logs, resources, prompts and tasks nobody here wants to know.
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for BoundedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (mut slot, mut answers) = (None, false);
        match &item {
            JsonRpcMessage::Request(request) => {
                if let ClientRequest::CallToolRequest(call) = &request.request {
                    slot = call.extensions().get::<CallSlot>().cloned();
                    let token = request.request.get_meta().get_progress_token();
                    if let (Some(slot), Some(token)) = (&slot, token) {
                        self.wire.calls().insert(token, slot.clone());
                    }
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => answers = true,
            JsonRpcMessage::Notification(_) => {}
        }
        let wire = Arc::clone(&self.wire);
        let send = self.inner.send(item);
        async move {
            if let Some(slot) = &slot {
                slot.0.sent.store(true, Ordering::Release);
            }
            let done = send.await;
            if answers {
                wire.requests.fetch_sub(1, Ordering::AcqRel);
            }
            done
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if self.unasked >= UNASKED {
                tokio::time::sleep(PAUSE).await;
                self.unasked = 0;
            }
            let Some(message) = self.inner.receive().await else {
                self.wire.closed.cancel();
                return None;
            };
            match &message {
                JsonRpcMessage::Notification(told) => {
                    self.take(&told.notification);
                    self.unasked += 1;
                }
                JsonRpcMessage::Request(_) => {
                    self.unasked += 1;
                    if self.wire.requests.fetch_add(1, Ordering::AcqRel) >= MOST_REQUESTS {
                        self.wire.fail("it asks more than it reads answers".to_owned());
                        self.wire.closed.cancel();
                        return None;
                    }
                    return Some(message);
                }
                JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => return Some(message),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.wire.closed.cancel();
        self.inner.close().await
    }
}

/// Words a report of progress.
fn report(told: &ProgressNotificationParam) -> String {
    let message = told.message.as_deref().map(|text| text::one_line(text, LONGEST_REPORT));
    let count = match told.total {
        Some(total) => format!("{}/{total}", told.progress),
        None => told.progress.to_string(),
    };
    match message.filter(|text| !text.is_empty()) {
        Some(message) => format!("{count} {message}\n"),
        None => format!("{count}\n"),
    }
}
