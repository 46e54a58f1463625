//! Answers to the requests that a server may send: `ping`, `roots/list`, `elicitation/create` and
//! `sampling/createMessage`.

#![expect(
    deprecated,
    reason = "servers ask for roots and sampling, whatever becomes of them in the protocol"
)]

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, ListRootsResult, Root, RootsCapabilities,
    SamplingCapability,
};
use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
        ElicitationCapability, ErrorCode, FormElicitationCapability, Implementation, InputRequest,
        InputRequests, InputResponses, JsonObject, ProtocolVersion, TASKS_EXTENSION_ID,
        UrlElicitationCapability,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

use crate::{
    elicitation::elicit,
    failure::CallError,
    oauth::UserBrowser,
    sampling::sample,
    transport::{CallSlot, TransportState},
};

/// Maximum number of requests that a server may return in place of a result.
const MOST_INPUT_REQUESTS: usize = 5;

/// Handler of a server's requests.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    /// Display name of the server.
    server: String,
    /// `file://` URIs of the workspace roots.
    roots: Vec<String>,
    /// Browser of the user; without a user nothing can be asked.
    browser: Option<Arc<dyn UserBrowser>>,
    transport_state: Arc<TransportState>,
    /// True once the user allowed all requests of the server to the model.
    may_sample: Arc<AtomicBool>,
    /// True for a server that sends no requests of its own. It gets the answers with the next request.
    is_stateless: bool,
    /// Version that the handshake offers.
    protocol_version: ProtocolVersion,
}

impl Client {
    pub(crate) fn new(
        server: &str,
        roots: &[PathBuf],
        browser: Option<Arc<dyn UserBrowser>>,
        transport_state: Arc<TransportState>,
    ) -> Self {
        Self {
            server: server.to_owned(),
            roots: roots.iter().map(|root| file_uri(root)).collect(),
            browser,
            transport_state,
            may_sample: Arc::default(),
            is_stateless: false,
            protocol_version: ProtocolVersion::LATEST_WITH_INITIALIZE,
        }
    }

    /// Returns the client for a stateless server.
    pub(crate) fn stateless(self) -> Self {
        Self { is_stateless: true, ..self }
    }

    /// Offers this version of the protocol in the handshake.
    pub(crate) fn with_protocol_version(self, protocol_version: ProtocolVersion) -> Self {
        Self { protocol_version, ..self }
    }

    /// Asks the user what the server wants to know for a call. Declines if there is no call or no user.
    pub(crate) async fn elicit(
        &self,
        request: &ElicitRequestParams,
        call: Option<&CallSlot>,
    ) -> ElicitResult {
        let ctx = call.and_then(CallSlot::context);
        let (Some(browser), Some(call), Some(ctx)) = (&self.browser, call, ctx) else {
            return ElicitResult::new(ElicitationAction::Decline);
        };
        let asked = call.ask(elicit(&self.server, request, browser.as_ref(), ctx)).await;
        asked.unwrap_or_else(|| ElicitResult::new(ElicitationAction::Cancel))
    }

    /// Sends a request of the server to the model, if the user of a call allows it.
    async fn sample(
        &self,
        request: CreateMessageRequestParams,
        call: Option<&CallSlot>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let Some((call, ctx)) = call.and_then(|call| Some((call, call.context()?))) else {
            return Err(ErrorData::invalid_request("there is no call that it belongs to", None));
        };
        let sampled = call.ask(sample(&self.server, request, ctx, &self.may_sample)).await;
        sampled.unwrap_or_else(|| Err(ErrorData::internal_error("it was cancelled", None)))
    }

    /// Answers the requests that a server returned in place of a result. Fails if the user declines one, or one cannot be
    /// answered.
    pub(crate) async fn respond(
        &self,
        requests: InputRequests,
        call: &CallSlot,
    ) -> Result<InputResponses, CallError> {
        if requests.len() > MOST_INPUT_REQUESTS {
            return Err(CallError::InputRequired);
        }
        let to_json = |error: serde_json::Error| CallError::Refused(error.to_string());
        let mut responses = InputResponses::new();
        for (id, request) in requests {
            let response = match request {
                InputRequest::Elicitation(request) => {
                    let answer = self.elicit(&request.params, Some(call)).await;
                    if answer.action != ElicitationAction::Accept {
                        return Err(CallError::Declined);
                    }
                    serde_json::to_value(answer).map_err(to_json)?
                }
                InputRequest::CreateMessage(request) if self.browser.is_some() => {
                    let reply = self.sample(request.params, Some(call)).await;
                    serde_json::to_value(reply.map_err(|_| CallError::Declined)?)
                        .map_err(to_json)?
                }
                InputRequest::ListRoots(_) => {
                    let roots: Vec<Value> =
                        self.roots.iter().map(|uri| json!({ "uri": uri })).collect();
                    json!({ "roots": roots })
                }
                _ => return Err(CallError::InputRequired),
            };
            responses.insert(id, response);
        }
        Ok(responses)
    }
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if !self.is_stateless {
            capabilities.roots = Some(RootsCapabilities::default());
        }
        if self.browser.is_some() {
            capabilities.sampling = Some(SamplingCapability::default());
            capabilities.elicitation = Some(
                ElicitationCapability::new()
                    .with_form(FormElicitationCapability::default())
                    .with_url(UrlElicitationCapability::default()),
            );
        }
        capabilities.extensions =
            Some(BTreeMap::from([(TASKS_EXTENSION_ID.to_owned(), JsonObject::new())]));
        let own = Implementation::new("crow-agent", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, own).with_protocol_version(self.protocol_version.clone())
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(self.roots.iter().map(Root::new).collect()))
    }

    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        if self.browser.is_none() {
            // The capability was not declared.
            let text = "sampling/createMessage is not supported by this client";
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, text, None));
        }
        let call = self.transport_state.last_call();
        let sampled = context.ct.run_until_cancelled(self.sample(request, call.as_ref())).await;
        sampled.unwrap_or_else(|| Err(ErrorData::internal_error("it was cancelled", None)))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if self.browser.is_none() {
            // The capability was not declared.
            let text = "elicitation/create is not supported by this client";
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, text, None));
        }
        let call = self.transport_state.last_call();
        let answer = context.ct.run_until_cancelled(self.elicit(&request, call.as_ref())).await;
        Ok(answer.unwrap_or_else(|| ElicitResult::new(ElicitationAction::Cancel)))
    }
}

/// Converts a path to a `file://` URI; percent-encodes all bytes except unreserved ones and slashes.
fn file_uri(path: &std::path::Path) -> String {
    let mut uri = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(*byte));
            }
            byte => {
                // Writing to a string cannot fail.
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_uri_escapes_reserved_characters() {
        let uri = file_uri(std::path::Path::new("/p/ä b/#x"));
        assert_eq!(uri, "file:///p/%C3%A4%20b/%23x");
    }
}
