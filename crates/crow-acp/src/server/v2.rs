//! Version 2 of the protocol, a draft: the same sessions, with a prompt that is answered when it is read, and states.

use std::sync::Arc;

use agent_client_protocol::{
    Agent, Client, ConnectTo, Error,
    schema::ProtocolVersion,
    v1::schema as v1,
    v2::{
        ConnectionTo, Responder,
        schema::{
            self as v2, ClientNotification, ClientRequest, IdleStateUpdate,
            RequiresActionStateUpdate, RunningStateUpdate, SessionUpdate, StateUpdate,
            UpdateSessionNotification, UserMessage,
        },
    },
};
use crow_core::ids::SessionId;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{
    connection::{Connection, Showing, Shown},
    convert::{self, same},
    fault::{host_error, invalid},
    initialize,
    list::list,
    peer::{Peer, Progress, PromptReply, Reply, Waited},
    requests::{OptionName, OptionValue, Request},
    setup::Setup,
    wire::Wire,
};
use crate::view::{self, ClientAbilities, Outgoing};

/// A client that speaks version 2.
#[derive(Debug)]
struct PeerV2 {
    to: ConnectionTo<Client>,
    wire: Arc<Wire>,
}

impl PeerV2 {
    fn tell(&self, update: UpdateSessionNotification) {
        if self.to.send_notification(update).is_ok() {
            self.wire.sent();
        }
    }
}

impl Peer for PeerV2 {
    fn room(&self) -> Waited<'_, ()> {
        Box::pin(self.wire.room())
    }

    fn update(&self, update: Outgoing) {
        for update in convert::updates(update) {
            self.tell(update);
        }
    }

    fn ask(
        &self,
        request: v1::RequestPermissionRequest,
    ) -> Waited<'static, Result<v1::RequestPermissionResponse, Error>> {
        let sent = convert::permission(request).map(|request| self.to.send_request(request));
        Box::pin(async move { same(sent?.block_task().await?) })
    }

    fn elicit(
        &self,
        request: v1::CreateElicitationRequest,
    ) -> Waited<'static, Result<v1::CreateElicitationResponse, Error>> {
        let sent = same::<v2::CreateElicitationRequest>(request);
        let sent = sent.map(|request| self.to.send_request(request));
        Box::pin(async move { same(sent?.block_task().await?) })
    }

    fn progress(&self, session: &v1::SessionId, progress: Progress<'_>) {
        let session = v2::SessionId::new(session.0.as_ref());
        let state = match progress {
            Progress::Began { message_id, prompt } => {
                // What cannot be said in version 2 was refused when it was said.
                let content = same::<Vec<v2::ContentBlock>>(prompt).unwrap_or_default();
                let message = UserMessage::new(message_id.to_owned()).content(content);
                self.tell(UpdateSessionNotification::new(
                    session.clone(),
                    SessionUpdate::UserMessage(message),
                ));
                StateUpdate::Running(RunningStateUpdate::new())
            }
            Progress::GoesOn => StateUpdate::Running(RunningStateUpdate::new()),
            Progress::Waits => StateUpdate::RequiresAction(RequiresActionStateUpdate::new()),
            Progress::Ready => StateUpdate::Idle(IdleStateUpdate::new()),
            Progress::Ended(response) => StateUpdate::Idle(ended(response)),
        };
        self.tell(UpdateSessionNotification::new(session, SessionUpdate::StateUpdate(state)));
    }
}

/// Says how a prompt ended.
fn ended(response: &Result<v1::PromptResponse, Error>) -> IdleStateUpdate {
    match response {
        Ok(response) => {
            let reason = same::<v2::StopReason>(json!({ "stopReason": response.stop_reason })).ok();
            let usage = response.usage.as_ref().and_then(|usage| same::<v2::Usage>(usage).ok());
            IdleStateUpdate::new().stop_reason(reason).usage(usage)
        }
        Err(error) => {
            let error = v2::Error::new(error.code.into(), error.message.clone());
            let reason = v2::StopReason::Error(v2::ErrorStopReason::new().error(error));
            IdleStateUpdate::new().stop_reason(reason)
        }
    }
}

/// Makes the agent of a connection that speaks version 2.
pub(super) fn agent(connection: Arc<Connection>, wire: Arc<Wire>) -> impl ConnectTo<Client> {
    let told = Arc::clone(&connection);
    let name = connection.shared.identity.name.clone();
    Agent
        .v2()
        .name(name)
        .on_receive_request(
            async move |request: ClientRequest,
                        responder: Responder<Value>,
                        to: ConnectionTo<Client>| {
                let peer = Arc::new(PeerV2 { to, wire: Arc::clone(&wire) });
                request_of(&connection, peer, request, responder)
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_notification(
            async move |notification: ClientNotification, _| {
                if let ClientNotification::CancelSessionNotification(cancel) = notification {
                    told.cancel(&id_of(&cancel.session_id));
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
}

/// Does what a request asks for, or has it done. Never waits.
#[expect(clippy::wildcard_enum_match_arm, reason = "the protocol adds variants")]
fn request_of(
    connection: &Arc<Connection>,
    peer: Arc<dyn Peer>,
    request: ClientRequest,
    responder: Responder<Value>,
) -> Result<(), Error> {
    match request {
        ClientRequest::InitializeRequest(request) => {
            connection.knows(ClientAbilities::from(&as_version_1(&request)));
            responder.respond_with_result(introduction(connection, &request))
        }
        ClientRequest::PromptRequest(request) => {
            let withdrawn = Some(responder.cancellation());
            let reply = Reply::new(move |message_id: Result<String, Error>| {
                let answer = message_id.and_then(|id| json_of(v2::PromptResponse::new(id)));
                drop(responder.respond_with_result(answer));
            });
            let prompt = same::<Vec<v1::ContentBlock>>(&request.prompt);
            let reply = PromptReply::Inserted(reply);
            match prompt {
                Ok(content) => connection.request(
                    &id_of(&request.session_id),
                    Request::Prompt { content, withdrawn, reply },
                ),
                Err(error) => reply.refuse(invalid(error.message)),
            }
            Ok(())
        }
        ClientRequest::SetSessionConfigOptionRequest(request) => {
            let value = match request.value {
                v2::SessionConfigOptionValue::Boolean { value } => OptionValue::Switched(value),
                v2::SessionConfigOptionValue::Id { value } => {
                    OptionValue::Named(value.0.to_string())
                }
                _ => return responder.respond_with_error(invalid("the value is of no known kind")),
            };
            let reply = Reply::new(move |options: Result<Vec<v1::SessionConfigOption>, Error>| {
                let answer = options
                    .and_then(convert::options)
                    .and_then(|options| json_of(v2::SetSessionConfigOptionResponse::new(options)));
                drop(responder.respond_with_result(answer));
            });
            let option = OptionName::Named(request.config_id.0.to_string());
            connection.request(&id_of(&request.session_id), Request::Set { option, value, reply });
            Ok(())
        }
        other => connection.spawn(answer_of(Arc::clone(connection), peer, other, responder)),
    }
}

fn introduction(connection: &Connection, request: &v2::InitializeRequest) -> Result<Value, Error> {
    let identity = &connection.shared.identity;
    let said = initialize::initialize(identity, &as_version_1(request));
    let info = v2::Implementation::new(&identity.name, &identity.version)
        .title(Some(identity.title.clone()));
    let prompt = v2::PromptCapabilities::new()
        .image(v2::PromptImageCapabilities::new())
        .embedded_context(v2::PromptEmbeddedContextCapabilities::new());
    let mcp = v2::McpCapabilities::new()
        .http(v2::McpHttpCapabilities::new())
        .stdio(v2::McpStdioCapabilities::new());
    let system_prompt = said.agent_capabilities.session_capabilities.system_prompt;
    let session = v2::SessionCapabilities::new()
        .prompt(prompt)
        .mcp(mcp)
        .delete(v2::SessionDeleteCapabilities::new())
        .fork(v2::SessionForkCapabilities::new())
        .title(v2::SessionTitleCapabilities::new())
        .additional_directories(v2::SessionAdditionalDirectoriesCapabilities::new())
        .system_prompt(same::<Option<v2::SessionSystemPromptCapabilities>>(system_prompt)?);
    let capabilities =
        v2::AgentCapabilities::new().session(session).auth(v2::AgentAuthCapabilities::new());
    json_of(
        v2::InitializeResponse::new(ProtocolVersion::V2, info)
            .capabilities(capabilities)
            .auth_methods(convert::auth_methods(&said.auth_methods)?),
    )
}

/// Says what a client can do as version 1 says it. What version 2 always has is added.
fn as_version_1(request: &v2::InitializeRequest) -> v1::InitializeRequest {
    let said = serde_json::to_value(&request.capabilities).unwrap_or_default();
    let in_terminal = said.pointer("/auth/terminal").is_some_and(|said| !said.is_null());
    let capabilities = json!({
        "auth": { "terminal": in_terminal },
        "elicitation": said.get("elicitation"),
        "subagents": said.get("subagents"),
        "session": { "notices": {}, "compaction": {}, "configOptions": { "boolean": {} } },
        "_meta": { "terminal_output": true },
    });
    let capabilities = serde_json::from_value::<v1::ClientCapabilities>(capabilities);
    v1::InitializeRequest::new(ProtocolVersion::V1)
        .client_capabilities(capabilities.unwrap_or_default())
        .client_info(v1::Implementation::new(&request.info.name, &request.info.version))
}

/// Answers what takes a while.
async fn answer_of(
    connection: Arc<Connection>,
    peer: Arc<dyn Peer>,
    request: ClientRequest,
    responder: Responder<Value>,
) {
    let mut known = None;
    let answer = session(&connection, &peer, request, &mut known).await;
    // A client that is gone needs no answer.
    drop(responder.respond_with_result(answer));
    if let Some(known) = known {
        // The session's task may have ended.
        let _: Result<(), ()> = oneshot::Sender::send(known, ());
    }
}

/// What a session is opened with, whichever request says it.
fn setup(
    folders: Vec<v2::AbsolutePath>,
    servers: Vec<v2::McpServer>,
    prompt: Option<v2::SystemPrompt>,
) -> Result<Setup, Error> {
    Ok(Setup {
        additional_directories: folders.into_iter().map(v2::AbsolutePath::into_inner).collect(),
        mcp_servers: same(servers).map_err(|error| invalid(error.message))?,
        system_prompt: same(prompt)?,
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the protocol adds variants")]
async fn session(
    connection: &Connection,
    peer: &Arc<dyn Peer>,
    request: ClientRequest,
    known: &mut Option<oneshot::Sender<()>>,
) -> Result<Value, Error> {
    let peer = Arc::clone(peer);
    match request {
        ClientRequest::NewSessionRequest(asked) => {
            let setup =
                setup(asked.additional_directories, asked.mcp_servers, asked.system_prompt)?;
            let shown = connection.create(peer, asked.cwd.into_inner(), setup).await?;
            let id = shown.id.as_str().to_owned();
            let (options, commands) = said(connection, shown, known).await?;
            let answer = v2::NewSessionResponse::new(id);
            json_of(answer.config_options(options).available_commands(commands))
        }
        ClientRequest::ResumeSessionRequest(asked) => {
            let setup =
                setup(asked.additional_directories, asked.mcp_servers, asked.system_prompt)?;
            let showing = match asked.replay_from {
                None => Showing::FromHereOn,
                Some(v2::ReplayFrom::Start(_)) => Showing::Everything,
                Some(_) => return Err(invalid("replayFrom: only the start is supported")),
            };
            let shown = connection.open(peer, id_of(&asked.session_id), setup, showing).await?;
            let (options, commands) = said(connection, shown, known).await?;
            let answer = v2::ResumeSessionResponse::new();
            json_of(answer.config_options(options).available_commands(commands))
        }
        ClientRequest::ForkSessionRequest(asked) => {
            let setup =
                setup(asked.additional_directories, asked.mcp_servers, asked.system_prompt)?;
            let shown = connection.fork(peer, id_of(&asked.session_id), setup).await?;
            let id = shown.id.as_str().to_owned();
            let (options, commands) = said(connection, shown, known).await?;
            let answer = v2::ForkSessionResponse::new(id);
            json_of(answer.config_options(options).available_commands(commands))
        }
        other => stored(connection, other).await,
    }
}

/// Returns what is said of a session that the client comes to know.
async fn said(
    connection: &Connection,
    shown: Shown,
    known: &mut Option<oneshot::Sender<()>>,
) -> Result<(Vec<v2::SessionConfigOption>, Vec<v2::AvailableCommand>), Error> {
    *known = shown.known;
    let host = connection.shared.host()?;
    let commands = host.commands(&shown.id).await.map_err(|error| host_error(&error))?;
    let commands = convert::commands(view::commands(&commands).available_commands)?;
    Ok((convert::options(shown.options)?, commands))
}

/// Answers what concerns sessions that need not be open, and who uses the agent.
#[expect(clippy::wildcard_enum_match_arm, reason = "the protocol adds variants")]
async fn stored(connection: &Connection, request: ClientRequest) -> Result<Value, Error> {
    let host = connection.shared.host()?;
    match request {
        ClientRequest::ListSessionsRequest(asked) => {
            let asked = same::<v1::ListSessionsRequest>(asked)?;
            json_of(list(host.as_ref(), asked).await?)
        }
        ClientRequest::CloseSessionRequest(asked) => {
            // One that is closed already is closed.
            if connection.handle(&id_of(&asked.session_id)).is_ok() {
                connection.close(&id_of(&asked.session_id)).await?;
            }
            Ok(json!({}))
        }
        ClientRequest::DeleteSessionRequest(asked) => {
            connection.delete(&id_of(&asked.session_id)).await?;
            Ok(json!({}))
        }
        ClientRequest::SetSessionTitleRequest(asked) => {
            connection.set_title(&id_of(&asked.session_id), &asked.title).await?;
            json_of(v2::SetSessionTitleResponse::new(asked.title))
        }
        ClientRequest::LoginAuthRequest(asked) => {
            let id = v1::AuthMethodId::new(asked.method_id.0.as_ref());
            if !initialize::is_method(&connection.shared.identity, &id) {
                return Err(invalid(format!("there is no method {}", id.0)));
            }
            host.authenticate().await.map_err(|error| host_error(&error))?;
            Ok(json!({}))
        }
        ClientRequest::LogoutAuthRequest(_) => {
            host.logout().await.map_err(|error| host_error(&error))?;
            Ok(json!({}))
        }
        _ => Err(Error::method_not_found()),
    }
}

fn json_of(value: impl serde::Serialize) -> Result<Value, Error> {
    serde_json::to_value(value).map_err(Error::into_internal_error)
}

fn id_of(id: &v2::SessionId) -> SessionId {
    SessionId::new(id.0.to_string())
}
