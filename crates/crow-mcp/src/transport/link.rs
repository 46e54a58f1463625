//! Transport over a link to a stateless server that the client serves: each request is independent.
//!
//! The link answers each request with a stream: notifications, then one end. `open` has the cancellation of each
//! request in flight, `messages` merges the streams. A chained end guarantees an answer even if a stream has none, and
//! a request is removed from `open` by its first end, so that the library gets exactly one answer.

use std::{
    collections::HashMap,
    future::{self, Future},
    io,
    pin::Pin,
    sync::Arc,
};

use crow_core::capability::{McpLink, McpLinkError, McpLinkMessage, McpLinkRequest};
use futures_util::{
    StreamExt as _,
    stream::{self, SelectAll},
};
use rmcp::{
    RoleClient,
    model::{
        ClientNotification, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    },
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::guarded::{LARGEST_MESSAGE, TransportState};

/// Code of an error that is not the server's own: the request was not delivered or not answered.
pub(crate) const LINK_FAILED: ErrorCode = ErrorCode(-33002);
/// Maximum number of requests in flight.
const MOST_OPEN: usize = 128;

type Messages = Pin<Box<dyn stream::Stream<Item = (RequestId, McpLinkMessage)> + Send>>;

/// Transport over a link.
pub(crate) struct LinkTransport {
    link: Arc<dyn McpLink>,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Cancellation of each request in flight.
    open: HashMap<RequestId, CancellationToken>,
    messages: SelectAll<Messages>,
    transport_state: Arc<TransportState>,
}

impl LinkTransport {
    pub(crate) fn new(link: Arc<dyn McpLink>, wire: Arc<TransportState>) -> Self {
        let closing = Arc::clone(&link);
        let closed = Box::pin(async move { closing.closed().await });
        Self {
            link,
            closed,
            open: HashMap::new(),
            messages: SelectAll::new(),
            transport_state: wire,
        }
    }

    fn request(&mut self, id: RequestId, request: &impl serde::Serialize) -> io::Result<()> {
        if self.open.len() >= MOST_OPEN {
            return Err(io::Error::other(format!("{MOST_OPEN} requests are under way")));
        }
        let cancel = CancellationToken::new();
        let messages = self.link.request(split(request)?);
        let unanswered = || {
            let error = McpLinkError::Broken("there is no answer".to_owned());
            future::ready(McpLinkMessage::Ended(Err(error)))
        };
        let message_id = id.clone();
        let messages = messages
            .chain(stream::once(unanswered()))
            .take_until(cancel.clone().cancelled_owned())
            .map(move |message| (message_id.clone(), message));
        self.messages.push(Box::pin(messages));
        self.open.insert(id, cancel);
        Ok(())
    }

    /// Cancels a request. None if it is not in flight.
    fn give_up(&mut self, id: &RequestId) -> Option<()> {
        self.open.remove(id).map(|token| token.cancel())
    }

    /// Converts a message of a request's stream. None if it is not a notification, or the request is not in flight.
    fn on_message(
        &mut self,
        id: &RequestId,
        message: McpLinkMessage,
    ) -> Option<RxJsonRpcMessage<RoleClient>> {
        match message {
            McpLinkMessage::Notification { method, params } => {
                self.open.get(id)?;
                let mut notification = json!({ "jsonrpc": "2.0", "method": method });
                if let (Some(params), Some(notification)) = (params, notification.as_object_mut()) {
                    notification.insert("params".to_owned(), Value::Object(params));
                }
                // Ignores notifications that do not parse.
                let notification =
                    serde_json::from_value::<ServerJsonRpcMessage>(notification).ok()?;
                matches!(notification, JsonRpcMessage::Notification(_)).then_some(notification)
            }
            McpLinkMessage::Ended(ended) => {
                if ended == Err(McpLinkError::Closed) {
                    // The link is closed, so nothing can be sent any more.
                    self.transport_state.fail(McpLinkError::Closed.to_string());
                    self.transport_state.closed.cancel();
                }
                self.give_up(id)?;
                Some(answer(id, ended))
            }
        }
    }
}

fn answer(id: &RequestId, ended: Result<Value, McpLinkError>) -> RxJsonRpcMessage<RoleClient> {
    let error = match ended {
        Ok(result) if is_too_large(&result) => {
            let most = LARGEST_MESSAGE / 1024 / 1024;
            ErrorData::new(LINK_FAILED, format!("it has more than {most} MiB"), None)
        }
        Ok(result) => {
            let message = json!({ "jsonrpc": "2.0", "id": id, "result": result });
            match serde_json::from_value::<ServerJsonRpcMessage>(message) {
                Ok(message @ JsonRpcMessage::Response(_)) => return message,
                Ok(_) | Err(_) => ErrorData::internal_error("the answer is invalid", None),
            }
        }
        Err(McpLinkError::Refused { code, message, data }) => {
            ErrorData::new(ErrorCode(code), message, data)
        }
        Err(error @ (McpLinkError::Broken(_) | McpLinkError::Closed)) => {
            ErrorData::new(LINK_FAILED, error.to_string(), None)
        }
    };
    JsonRpcMessage::error(error, Some(id.clone()))
}

/// Returns true if a result exceeds the maximum size of a message. The client behind the link may allow larger ones.
fn is_too_large(result: &Value) -> bool {
    serde_json::to_writer(WriteCapacity(LARGEST_MESSAGE), result).is_err()
}

/// Number of bytes that can still be written.
struct WriteCapacity(usize);

impl io::Write for WriteCapacity {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let remaining = self.0.checked_sub(bytes.len());
        self.0 = remaining.ok_or_else(|| io::Error::other("there is no room"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Splits a request into its method and parameters.
fn split(request: &impl serde::Serialize) -> io::Result<McpLinkRequest> {
    let invalid = || io::Error::other("an invalid request");
    let mut request = serde_json::to_value(request)?;
    let fields = request.as_object_mut().ok_or_else(invalid)?;
    let Some(Value::String(method)) = fields.remove("method") else { return Err(invalid()) };
    let params = match fields.remove("params") {
        Some(Value::Object(params)) => Some(params),
        None | Some(Value::Null) => None,
        Some(_) => return Err(invalid()),
    };
    Ok(McpLinkRequest { method, params })
}

impl Transport<RoleClient> for LinkTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let sent = match item {
            JsonRpcMessage::Request(request) => self.request(request.id, &request.request),
            JsonRpcMessage::Notification(message) => {
                if let ClientNotification::CancelledNotification(cancelled) = message.notification
                    && let Some(id) = cancelled.params.request_id
                {
                    self.give_up(&id);
                }
                Ok(())
            }
            // A server behind a link sends no requests.
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => Ok(()),
        };
        future::ready(sent)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let next = tokio::select! {
                // Messages that arrived before the close are handled first.
                biased;
                Some(next) = self.messages.next() => next,
                () = &mut self.closed => {
                    self.closed = Box::pin(future::ready(()));
                    self.transport_state.fail(McpLinkError::Closed.to_string());
                    return None;
                }
            };
            let (id, message) = next;
            if let Some(message) = self.on_message(&id, message) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.open.clear();
        self.messages.clear();
        Ok(())
    }
}
