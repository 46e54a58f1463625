//! Version 2 of the protocol, a draft: the same sessions, with a prompt that is answered when it is read, and states.
//!
//! It is spoken as version 1 in other words: [`convert`] changes the JSON. So its types are not a part of the program.

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
use tokio::sync::oneshot;

use super::{
    connection::AcpConnection,
    convert,
    fault::{host_error, invalid},
    initialize,
    parsed::without_quotes,
    peer::{Peer, PromptReply, RequestReply, SessionProgress, WaitedFuture},
    providers,
    requests::{AttachedRequest, OptionName, OptionValue},
    v1 as version_1,
    ways::Ways,
};
use crate::view::{self, ClientAbilities, SessionUpdateOut};

/// A client that speaks version 2.
#[derive(Debug)]
struct PeerV2 {
    to: ConnectionTo<Client>,
    ways: Arc<Ways>,
}

impl PeerV2 {
    fn tell(&self, session: &v1::SessionId, update: Map<String, Value>) {
        let way = self.ways.of(&session.0);
        if way.is_full() {
            return;
        }
        let params = object([("sessionId", json!(session)), ("update", Value::Object(update))]);
        let message = UntypedMessage { method: "session/update".to_owned(), params };
        let sent = self.to.send_notification(message);
        if sent.is_ok() {
            way.sent();
        }
    }

    /// Sends a request now, so that it stands behind what was sent before.
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
    fn room<'a>(&'a self, session: &'a v1::SessionId) -> WaitedFuture<'a, ()> {
        Box::pin(async move { self.ways.of(&session.0).room().await })
    }

    fn update(&self, update: SessionUpdateOut) {
        let SessionUpdateOut { session_id, update } = update;
        for update in convert::updates(&update) {
            self.tell(&session_id, update);
        }
    }

    fn ask(
        &self,
        request: v1::RequestPermissionRequest,
    ) -> WaitedFuture<'static, Result<v1::RequestPermissionResponse, Error>> {
        self.request("session/request_permission", convert::permission(&request))
    }

    fn elicit(
        &self,
        request: v1::CreateElicitationRequest,
    ) -> WaitedFuture<'static, Result<v1::CreateElicitationResponse, Error>> {
        self.request("elicitation/create", json_of(request))
    }

    fn mcp(
        &self,
        request: v1::MessageMcpRequest,
    ) -> WaitedFuture<'static, Result<v1::MessageMcpResponse, Error>> {
        self.request("mcp/message", json_of(request))
    }

    fn progress(&self, session: &v1::SessionId, progress: SessionProgress<'_>) {
        let state = match progress {
            SessionProgress::Began { message_id, prompt } => {
                let said = json!({
                    "sessionUpdate": "user_message", "messageId": message_id, "content": prompt,
                });
                self.tell(session, convert::object(said));
                json!({ "state": "running" })
            }
            SessionProgress::GoesOn => json!({ "state": "running" }),
            SessionProgress::Waits => json!({ "state": "requires_action" }),
            SessionProgress::Ready => json!({ "state": "idle" }),
            SessionProgress::Ended(response) => convert::ended(response),
        };
        let mut update = convert::object(state);
        update.insert("sessionUpdate".to_owned(), json!("state_update"));
        self.tell(session, update);
    }
}

/// Makes the agent of a connection that speaks version 2.
pub(super) fn agent(connection: Arc<AcpConnection>) -> impl ConnectTo<Client> {
    let told = Arc::clone(&connection);
    let name = connection.shared.identity.name.clone();
    Agent
        .v2()
        .name(name)
        .on_receive_request(
            async move |request: UntypedMessage,
                        responder: Responder<Value>,
                        to: ConnectionTo<Client>| {
                let peer = Arc::new(PeerV2 { to, ways: Arc::clone(&connection.ways) });
                request_of(&connection, peer, request, responder)
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_notification(
            async move |notification: UntypedMessage, _| {
                let (method, params) = notification.into_parts();
                // What cannot be read tells nothing.
                if let Ok(notification) = v1::ClientNotification::parse_message(&method, &params) {
                    version_1::notification_of(&told, notification);
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
}

/// Does what a request asks for, or has it done. Never waits.
fn request_of(
    connection: &Arc<AcpConnection>,
    peer: Arc<dyn Peer>,
    request: UntypedMessage,
    responder: Responder<Value>,
) -> Result<(), Error> {
    let (method, params) = request.into_parts();
    match method.as_str() {
        "initialize" => {
            let answer = convert::introduction(&params).map(|said| {
                connection.knows(ClientAbilities::from(&said));
                introduction(connection, &said)
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

fn introduction(connection: &AcpConnection, said: &v1::InitializeRequest) -> Value {
    let identity = &connection.shared.identity;
    let own = providers::announced(&connection.shared, initialize::initialize(identity, said));
    let sessions = &own.agent_capabilities.session_capabilities;
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
        (capabilities.as_object_mut(), own.agent_capabilities.providers)
    {
        all.insert("providers".to_owned(), json!(providers));
    }
    json!({
        "protocolVersion": ProtocolVersion::V2,
        "info": { "name": identity.name, "title": identity.title, "version": identity.version },
        "capabilities": capabilities,
        "authMethods": convert::auth_methods(&own.auth_methods),
        "_meta": own.meta,
    })
}

fn prompt(connection: &AcpConnection, params: Value, responder: Responder<Value>) {
    let withdrawn = Some(responder.cancellation());
    let reply =
        PromptReply::Inserted(RequestReply::new(move |message_id: Result<String, Error>| {
            // A client that is gone needs no answer.
            drop(responder.respond_with_result(message_id.map(|id| json!({ "messageId": id }))));
        }));
    match read::<v1::PromptRequest>(params) {
        Ok(request) => {
            connection.prompt(&id_of(&request.session_id), request.prompt, withdrawn, reply);
        }
        Err(error) => reply.refuse(error),
    }
}

/// The value of an option. Kinds that are not known are refused.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ValueOfOption {
    Id { value: String },
    Boolean { value: bool },
}

/// A request to set an option.
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
        // A client that is gone needs no answer.
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
        Err(error) => reply.give(Err(error)),
    }
}

/// Answers what takes a while.
async fn answer_of(
    connection: Arc<AcpConnection>,
    peer: Arc<dyn Peer>,
    method: String,
    params: Value,
    responder: Responder<Value>,
) {
    let mut known = None;
    let answer = answer(&connection, peer, &method, params, &mut known).await;
    // A client that is gone needs no answer.
    drop(responder.respond_with_result(answer));
    if let Some(known) = known {
        // The session's task may have ended.
        let _: Result<(), ()> = oneshot::Sender::send(known, ());
    }
}

async fn answer(
    connection: &AcpConnection,
    peer: Arc<dyn Peer>,
    method: &str,
    params: Value,
    known: &mut Option<oneshot::Sender<()>>,
) -> Result<Value, Error> {
    let session = params.get("sessionId").and_then(Value::as_str).map(SessionId::new);
    if let (Some(id), "session/close") = (&session, method)
        && connection.handle(id).is_err()
    {
        // One that is closed already is closed.
        connection.ways.forget(id.as_str());
        return Ok(json!({}));
    }
    let request = convert::request(method, &params)?;
    let answer = version_1::session(connection, peer, request, known).await?;
    let answer = json_of(answer)?;
    if !matches!(method, "session/new" | "session/resume" | "session/fork") {
        return Ok(answer);
    }
    let mut answer = convert::object(answer);
    let made = answer.get("sessionId").and_then(Value::as_str).map(SessionId::new);
    let host = connection.shared.host()?;
    let id = made.or(session).ok_or_else(Error::internal_error)?;
    let commands = host.commands(&id).await.map_err(|error| host_error(&error))?;
    convert::opened(&mut answer, &view::commands(&commands).available_commands);
    Ok(Value::Object(answer))
}

/// Makes an object of parts, without writing them anew.
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
