//! Version 2 of the protocol, a draft: a prompt is answered when the agent has read it, and state updates report the
//! rest.
//!
//! Messages are those of version 1 with their JSON changed by [`convert`], so the types of version 2 are not used here.

use std::sync::Arc;

use agent_client_protocol::{
    Agent, Client, ConnectTo, Error, JsonRpcMessage as _, UntypedMessage,
    schema::ProtocolVersion,
    v1::schema as v1,
    v2::{ConnectionTo, Responder},
};
use crow_core::ids::SessionId;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use tokio::{sync::oneshot, time::Instant};

use super::{
    attached::{AttachedRequest, OptionName, OptionValue},
    connection::AcpConnection,
    convert, initialize,
    peer::{Peer, PromptReply, RequestReply, SessionProgress, WaitedFuture},
    providers,
    v1::{self as version_1, without_quotes},
    wire::ClientWires,
};
use crate::view::{self, ClientAbilities, SessionUpdateOut, host_error, invalid};

/// A client that speaks version 2.
#[derive(Debug)]
struct PeerV2 {
    to: ConnectionTo<Client>,
    wires: Arc<ClientWires>,
}

impl PeerV2 {
    fn send_update(&self, session: &v1::SessionId, update: Map<String, Value>) {
        let wire = self.wires.wire_of(&session.0);
        if wire.is_full() {
            return;
        }
        let params = object([("sessionId", json!(session)), ("update", Value::Object(update))]);
        let message = UntypedMessage { method: "session/update".to_owned(), params };
        let sent = self.to.send_notification(message);
        if sent.is_ok() {
            wire.count_sent();
        }
    }

    /// Queues a request before returning, so that it follows the messages sent before. The future is its response.
    fn request<T: DeserializeOwned>(
        &self,
        method: &str,
        params: Result<Value, Error>,
    ) -> WaitedFuture<'static, Result<T, Error>> {
        let sent = params
            .and_then(|params| UntypedMessage::new(method, params))
            .map(|request| self.to.send_request(request));
        Box::pin(async move { read(sent?.block_task().await?) })
    }
}

impl Peer for PeerV2 {
    fn wait_for_room<'a>(&'a self, session: &'a v1::SessionId) -> WaitedFuture<'a, ()> {
        Box::pin(async move { self.wires.wire_of(&session.0).wait_for_room().await })
    }

    fn update(&self, update: SessionUpdateOut) {
        let SessionUpdateOut { session_id, update } = update;
        for update in convert::updates(&update) {
            self.send_update(&session_id, update);
        }
    }

    fn request_permission(
        &self,
        request: v1::RequestPermissionRequest,
    ) -> WaitedFuture<'static, Result<v1::RequestPermissionResponse, Error>> {
        self.request("session/request_permission", convert::permission(&request))
    }

    fn create_elicitation(
        &self,
        request: v1::CreateElicitationRequest,
    ) -> WaitedFuture<'static, Result<v1::CreateElicitationResponse, Error>> {
        self.request("elicitation/create", json_of(request))
    }

    fn send_mcp_request(
        &self,
        request: v1::MessageMcpRequest,
    ) -> WaitedFuture<'static, Result<v1::MessageMcpResponse, Error>> {
        self.request("mcp/message", json_of(request))
    }

    fn report_progress(&self, session: &v1::SessionId, progress: SessionProgress<'_>) {
        let state = match progress {
            SessionProgress::Started { message_id, prompt } => {
                let prompt_update = json!({
                    "sessionUpdate": "user_message", "messageId": message_id, "content": prompt,
                });
                self.send_update(session, convert::object(prompt_update));
                json!({ "state": "running" })
            }
            SessionProgress::Running => json!({ "state": "running" }),
            SessionProgress::Asking => json!({ "state": "requires_action" }),
            SessionProgress::Idle => json!({ "state": "idle" }),
            SessionProgress::Ended(response) => convert::ended(response),
        };
        let mut update = convert::object(state);
        update.insert("sessionUpdate".to_owned(), json!("state_update"));
        self.send_update(session, update);
    }
}

/// Creates the protocol handler of a connection that speaks version 2.
pub(super) fn agent(connection: Arc<AcpConnection>) -> impl ConnectTo<Client> {
    let for_notifications = Arc::clone(&connection);
    let name = connection.shared.identity.name.clone();
    Agent
        .v2()
        .name(name)
        .on_receive_request(
            async move |request: UntypedMessage,
                        responder: Responder<Value>,
                        to: ConnectionTo<Client>| {
                let peer = Arc::new(PeerV2 { to, wires: Arc::clone(&connection.wires) });
                version_1::request_span(&request.method)
                    .in_scope(|| request_of(&connection, peer, request, responder))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_notification(
            async move |notification: UntypedMessage, _| {
                let (method, params) = notification.into_parts();
                // Notifications that do not parse are ignored.
                if let Ok(notification) = v1::ClientNotification::parse_message(&method, &params) {
                    version_1::notification_of(&for_notifications, notification);
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
}

/// Dispatches a request: answers it, queues it for its session's task, or spawns a task. Never waits.
fn request_of(
    connection: &Arc<AcpConnection>,
    peer: Arc<dyn Peer>,
    request: UntypedMessage,
    responder: Responder<Value>,
) -> Result<(), Error> {
    tracing::debug!("request received");
    let (method, params) = request.into_parts();
    match method.as_str() {
        "initialize" => {
            let answer = convert::introduction(&params).map(|request| {
                connection.set_abilities(ClientAbilities::from(&request));
                introduction(connection, &request)
            });
            responder.respond_with_result(answer)
        }
        "session/prompt" => {
            prompt(connection, params, responder);
            Ok(())
        }
        "session/set_config_option" => {
            set_option(connection, params, responder);
            Ok(())
        }
        _ => connection.spawn(answer_of(Arc::clone(connection), peer, method, params, responder)),
    }
}

fn introduction(connection: &AcpConnection, request: &v1::InitializeRequest) -> Value {
    let identity = &connection.shared.identity;
    let response = providers::with_provider_capability(
        &connection.shared,
        initialize::initialize(identity, request),
    );
    let sessions = &response.agent_capabilities.session_capabilities;
    let session = json!({
        "prompt": { "image": {}, "embeddedContext": {} },
        "mcp": { "stdio": {}, "http": {}, "acp": {} },
        "delete": {},
        "fork": {},
        "title": {},
        "additionalDirectories": {},
        "systemPrompt": sessions.system_prompt,
    });
    let mut capabilities = json!({ "session": session, "auth": {} });
    if let (Some(all), Some(providers)) =
        (capabilities.as_object_mut(), response.agent_capabilities.providers)
    {
        all.insert("providers".to_owned(), json!(providers));
    }
    json!({
        "protocolVersion": ProtocolVersion::V2,
        "info": { "name": identity.name, "title": identity.title, "version": identity.version },
        "capabilities": capabilities,
        "authMethods": convert::auth_methods(&response.auth_methods),
        "_meta": response.meta,
    })
}

fn prompt(connection: &AcpConnection, params: Value, responder: Responder<Value>) {
    let cancellation = Some(responder.cancellation());
    let reply =
        PromptReply::Inserted(RequestReply::new(move |message_id: Result<String, Error>| {
            // Fails only if the client is gone.
            drop(responder.respond_with_result(message_id.map(|id| json!({ "messageId": id }))));
        }));
    match read::<v1::PromptRequest>(params) {
        Ok(request) => {
            connection.prompt(&id_of(&request.session_id), request.prompt, cancellation, reply);
        }
        Err(error) => reply.refuse(error),
    }
}

/// Value in `session/set_config_option`. Unknown kinds are refused.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ValueOfOption {
    Id { value: String },
    Boolean { value: bool },
}

/// Parameters of `session/set_config_option`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetOption {
    session_id: v1::SessionId,
    config_id: String,
    #[serde(flatten)]
    value: ValueOfOption,
}

fn set_option(connection: &AcpConnection, params: Value, responder: Responder<Value>) {
    let reply = RequestReply::new(move |options: Result<Vec<v1::SessionConfigOption>, Error>| {
        let answer = options.map(|options| json!({ "configOptions": convert::options(&options) }));
        // Fails only if the client is gone.
        drop(responder.respond_with_result(answer));
    });
    match read::<SetOption>(params) {
        Ok(SetOption { session_id, config_id, value }) => {
            let option = OptionName::Named(config_id);
            let value = match value {
                ValueOfOption::Id { value } => OptionValue::Named(value),
                ValueOfOption::Boolean { value } => OptionValue::Switched(value),
            };
            connection.request(&id_of(&session_id), AttachedRequest::Set { option, value, reply });
        }
        Err(error) => reply.send(Err(error)),
    }
}

/// Answers a request that may take a while, then starts the task of a session that the response disclosed.
async fn answer_of(
    connection: Arc<AcpConnection>,
    peer: Arc<dyn Peer>,
    method: String,
    params: Value,
    responder: Responder<Value>,
) {
    let started = Instant::now();
    let mut disclosed = None;
    let answer = answer(&connection, peer, &method, params, &mut disclosed).await;
    version_1::log_answer(&answer, started);
    // Fails only if the client is gone.
    drop(responder.respond_with_result(answer));
    if let Some(disclosed) = disclosed {
        // Fails if the session's task has ended.
        let _: Result<(), ()> = oneshot::Sender::send(disclosed, ());
    }
}

/// Returns the response to a request, in the JSON of version 2.
async fn answer(
    connection: &AcpConnection,
    peer: Arc<dyn Peer>,
    method: &str,
    params: Value,
    disclosed: &mut Option<oneshot::Sender<()>>,
) -> Result<Value, Error> {
    let session = params.get("sessionId").and_then(Value::as_str).map(SessionId::new);
    if let (Some(id), "session/close") = (&session, method)
        && connection.handle(id).is_err()
    {
        // Closing a session that is not attached succeeds.
        connection.wires.remove(id.as_str());
        return Ok(json!({}));
    }
    // Handle it as the request of version 1.
    let request = convert::request(method, &params)?;
    let answer = version_1::session(connection, peer, request, disclosed).await?;
    let answer = json_of(answer)?;
    if !matches!(method, "session/new" | "session/resume" | "session/fork") {
        return Ok(answer);
    }
    // Responses that open a session carry its commands in version 2.
    let mut answer = convert::object(answer);
    let made = answer.get("sessionId").and_then(Value::as_str).map(SessionId::new);
    let host = connection.shared.host()?;
    let id = made.or(session).ok_or_else(Error::internal_error)?;
    let commands = host.commands(&id).await.map_err(|error| host_error(&error))?;
    convert::opened(&mut answer, &view::commands(&commands).available_commands);
    Ok(Value::Object(answer))
}

/// Builds an object from values, without serialising them again.
fn object<const N: usize>(parts: [(&str, Value); N]) -> Value {
    Value::Object(parts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    serde_json::from_value(value).map_err(|error| invalid(without_quotes(&error.to_string())))
}

fn json_of(value: impl serde::Serialize) -> Result<Value, Error> {
    serde_json::to_value(value).map_err(Error::into_internal_error)
}

fn id_of(id: &v1::SessionId) -> SessionId {
    SessionId::new(id.0.to_string())
}
