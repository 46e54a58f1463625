//! Version 1 of the protocol: the parsing of requests, and the answers to them.
//!
//! Parse errors do not quote the input. The library's own ones repeat the whole of it, and it may contain secrets, such
//! as headers of providers and of MCP servers, which would end up in the client's log.

use std::sync::Arc;

use agent_client_protocol::{
    Agent, Client, ConnectTo, Error, JsonRpcMessage, JsonRpcRequest, UntypedMessage,
    v1::{
        ConnectionTo, Responder,
        schema::{
            self as schema, AgentResponse, AuthenticateResponse, ClientNotification, ClientRequest,
            CloseSessionResponse, ContentBlock, CreateElicitationRequest,
            CreateElicitationResponse, DeleteSessionResponse, ExtResponse, ForkSessionResponse,
            ListSessionsRequest, ListSessionsResponse, LoadSessionResponse, LogoutResponse,
            MessageMcpRequest, MessageMcpResponse, NewSessionResponse, PromptRequest,
            RequestPermissionRequest, RequestPermissionResponse, ResumeSessionResponse,
            SessionConfigOptionValue, SessionNotification, SetSessionConfigOptionRequest,
            SetSessionConfigOptionResponse, SetSessionModeResponse, SetSessionTitleResponse,
        },
    },
};
use crow_core::{event::AgentState, ids::SessionId};
use crow_runtime::{
    AgentHost, ListCursor, OptionKind, SessionFilter, SessionMetadata, UnusedSessions,
};
use serde::Deserialize;
use serde_json::{Value, json, value::to_raw_value};
use tokio::time::Instant;
use tracing::Span;

use super::{
    attached::{AttachedRequest, OptionName, OptionValue},
    connection::{AcpConnection, ReplayExtent},
    initialize,
    peer::{Peer, PromptReply, RequestReply, SessionProgress, WaitedFuture},
    providers,
    setup::{Setup, absolute},
    wire::ClientWires,
};
use crate::view::{
    self, ClientAbilities, SessionUpdateOut, handle_error, host_error, invalid, prompt_blocks,
    prompt_error,
};

/// A client that speaks version 1.
#[derive(Debug)]
struct PeerV1 {
    to: ConnectionTo<Client>,
    wires: Arc<ClientWires>,
}

impl Peer for PeerV1 {
    fn wait_for_room<'a>(&'a self, session: &'a schema::SessionId) -> WaitedFuture<'a, ()> {
        Box::pin(async move { self.wires.wire_of(&session.0).wait_for_room().await })
    }

    fn update(&self, update: SessionUpdateOut) {
        let SessionUpdateOut { session_id, update } = update;
        let wire = self.wires.wire_of(&session_id.0);
        if wire.is_full() {
            return;
        }
        if self.to.send_notification(SessionNotification::new(session_id, update)).is_ok() {
            wire.count_sent();
        }
    }

    fn request_permission(
        &self,
        request: RequestPermissionRequest,
    ) -> WaitedFuture<'static, Result<RequestPermissionResponse, Error>> {
        // Queued before returning, so that it follows the messages sent before.
        let sent = self.to.send_request(request);
        Box::pin(sent.block_task())
    }

    fn create_elicitation(
        &self,
        request: CreateElicitationRequest,
    ) -> WaitedFuture<'static, Result<CreateElicitationResponse, Error>> {
        let sent = self.to.send_request(request);
        Box::pin(sent.block_task())
    }

    fn send_mcp_request(
        &self,
        request: MessageMcpRequest,
    ) -> WaitedFuture<'static, Result<MessageMcpResponse, Error>> {
        let sent = self.to.send_request(request);
        Box::pin(sent.block_task())
    }

    /// Does nothing: version 1 reports only the end of a prompt, by its response.
    fn report_progress(&self, _session: &schema::SessionId, _progress: SessionProgress<'_>) {}
}

/// Creates the protocol handler of a connection that speaks version 1.
pub(super) fn agent(connection: Arc<AcpConnection>) -> impl ConnectTo<Client> {
    let for_notifications = Arc::clone(&connection);
    let name = connection.shared.identity.name.clone();
    Agent
        .v1()
        .name(name)
        .on_receive_request(
            async move |ParsedRequest(request): ParsedRequest,
                        responder,
                        to: ConnectionTo<Client>| {
                let peer = Arc::new(PeerV1 { to, wires: Arc::clone(&connection.wires) });
                request_span(request.method())
                    .in_scope(|| request_of(&connection, peer, request, responder.cast()))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_notification(
            async move |notification: ClientNotification, _| {
                notification_of(&for_notifications, notification);
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
}

/// Returns the span of a request. Work that outlives the dispatch takes it along.
pub(super) fn request_span(method: &str) -> Span {
    tracing::debug_span!("acp_request", method)
}

/// Handles a notification of the client. Unknown ones are ignored.
#[expect(clippy::wildcard_enum_match_arm, reason = "the protocol adds variants")]
pub(super) fn notification_of(connection: &AcpConnection, notification: ClientNotification) {
    match notification {
        ClientNotification::CancelNotification(cancel) => {
            connection.cancel(&id_of(&cancel.session_id));
        }
        ClientNotification::MessageMcpNotification(news) => connection.links.deliver(news),
        _ => {}
    }
}

/// Dispatches a request: answers it, queues it for its session's task, or spawns a task. Never waits, because the next
/// message is not read before it returns.
#[expect(clippy::wildcard_enum_match_arm, reason = "the protocol adds variants")]
fn request_of(
    connection: &Arc<AcpConnection>,
    peer: Arc<dyn Peer>,
    request: ClientRequest,
    responder: Responder<AgentResponse>,
) -> Result<(), Error> {
    tracing::debug!("request received");
    match request {
        ClientRequest::InitializeRequest(request) => {
            connection.set_abilities(ClientAbilities::from(&request));
            let answer = initialize::initialize(&connection.shared.identity, &request);
            let answer = providers::with_provider_capability(&connection.shared, answer);
            responder.respond(AgentResponse::InitializeResponse(answer))
        }
        _ if !connection.is_introduced() => {
            let mut error = Error::invalid_request();
            "initialize comes first".clone_into(&mut error.message);
            responder.respond_with_error(error)
        }
        ClientRequest::PromptRequest(request) => {
            prompt(connection, request, responder);
            Ok(())
        }
        ClientRequest::SetSessionModeRequest(request) => {
            let reply = reply(responder, |_| {
                AgentResponse::SetSessionModeResponse(SetSessionModeResponse::new())
            });
            let option = OptionName::OfKind(OptionKind::ControlFlow);
            let value = OptionValue::Named(request.mode_id.0.to_string());
            connection.request(
                &id_of(&request.session_id),
                AttachedRequest::Set { option, value, reply },
            );
            Ok(())
        }
        ClientRequest::SetSessionConfigOptionRequest(request) => {
            set_option(connection, request, responder)
        }
        other => {
            let work = answer_of(Arc::clone(connection), peer, other, responder);
            connection.spawn(work)
        }
    }
}

fn prompt(connection: &AcpConnection, request: PromptRequest, responder: Responder<AgentResponse>) {
    let withdrawn = Some(responder.cancellation());
    let reply = PromptReply::Ended(reply(responder, AgentResponse::PromptResponse));
    let id = id_of(&request.session_id);
    connection.prompt(&id, request.prompt, withdrawn, reply);
}

fn set_option(
    connection: &AcpConnection,
    request: SetSessionConfigOptionRequest,
    responder: Responder<AgentResponse>,
) -> Result<(), Error> {
    let value = match request.value {
        SessionConfigOptionValue::Boolean { value } => OptionValue::Switched(value),
        SessionConfigOptionValue::ValueId { value } => OptionValue::Named(value.0.to_string()),
        _ => return responder.respond_with_error(invalid("the value has an unknown kind")),
    };
    let option = OptionName::Named(request.config_id.0.to_string());
    let reply = reply(responder, |options| {
        AgentResponse::SetSessionConfigOptionResponse(SetSessionConfigOptionResponse::new(options))
    });
    connection.request(&id_of(&request.session_id), AttachedRequest::Set { option, value, reply });
    Ok(())
}

/// Answers a request that may take a while, then starts the task of a session that the response disclosed.
async fn answer_of(
    connection: Arc<AcpConnection>,
    peer: Arc<dyn Peer>,
    request: ClientRequest,
    responder: Responder<AgentResponse>,
) {
    let started = Instant::now();
    let mut disclosed = None;
    let answer = session(&connection, peer, request, &mut disclosed).await;
    log_answer(&answer, started);
    // Fails only if the client is gone.
    drop(responder.respond_with_result(answer));
    if let Some(disclosed) = disclosed {
        // Fails if the session's task has ended.
        let _: Result<(), ()> = tokio::sync::oneshot::Sender::send(disclosed, ());
    }
}

/// Logs whether a request succeeded, and how long it took.
pub(super) fn log_answer<T>(answer: &Result<T, Error>, started: Instant) {
    let duration_ms = started.elapsed().as_millis();
    let error = answer.as_ref().err().map(|error| i32::from(error.code));
    tracing::debug!(error, duration_ms, "request answered");
}

/// Answers a request that creates, opens or forks a session, or any other that may wait. `disclosed` takes the sender
/// to signal once the response was sent.
#[expect(clippy::wildcard_enum_match_arm, reason = "the protocol adds variants")]
pub(super) async fn session(
    connection: &AcpConnection,
    peer: Arc<dyn Peer>,
    request: ClientRequest,
    disclosed: &mut Option<tokio::sync::oneshot::Sender<()>>,
) -> Result<AgentResponse, Error> {
    let mut disclose = |opened: super::connection::ConnectedSession| {
        *disclosed = opened.start_signal;
        (opened.id.as_str().to_owned(), opened.options, opened.modes)
    };
    Ok(match request {
        ClientRequest::NewSessionRequest(request) => {
            let setup = Setup::new(
                request.additional_directories,
                request.mcp_servers,
                request.system_prompt,
            );
            let (id, options, modes) = disclose(connection.create(peer, request.cwd, setup).await?);
            let answer = NewSessionResponse::new(id).modes(modes).config_options(options);
            AgentResponse::NewSessionResponse(answer)
        }
        ClientRequest::LoadSessionRequest(request) => {
            let setup = Setup::new(
                request.additional_directories,
                request.mcp_servers,
                request.system_prompt,
            )
            .working_in(request.cwd);
            let id = id_of(&request.session_id);
            let opened = connection.open(peer, id, setup, ReplayExtent::Everything).await?;
            let (_, options, modes) = disclose(opened);
            let answer = LoadSessionResponse::new().modes(modes).config_options(options);
            AgentResponse::LoadSessionResponse(answer)
        }
        ClientRequest::ResumeSessionRequest(request) => {
            let setup = Setup::new(
                request.additional_directories,
                request.mcp_servers,
                request.system_prompt,
            )
            .working_in(request.cwd);
            let id = id_of(&request.session_id);
            let opened = connection.open(peer, id, setup, ReplayExtent::Nothing).await?;
            let (_, options, modes) = disclose(opened);
            let answer = ResumeSessionResponse::new().modes(modes).config_options(options);
            AgentResponse::ResumeSessionResponse(answer)
        }
        ClientRequest::ForkSessionRequest(request) => {
            let setup = Setup::new(
                request.additional_directories,
                request.mcp_servers,
                request.system_prompt,
            )
            .working_in(request.cwd);
            let id = id_of(&request.session_id);
            let (id, options, modes) = disclose(connection.fork(peer, id, setup).await?);
            let answer = ForkSessionResponse::new(id).modes(modes).config_options(options);
            AgentResponse::ForkSessionResponse(answer)
        }
        other => stored(connection, other).await?,
    })
}

/// Answers requests about stored sessions, authentication and providers, and extension methods.
#[expect(clippy::wildcard_enum_match_arm, reason = "the protocol adds variants")]
async fn stored(
    connection: &AcpConnection,
    request: ClientRequest,
) -> Result<AgentResponse, Error> {
    let host = connection.shared.host()?;
    Ok(match request {
        ClientRequest::ListSessionsRequest(request) => {
            AgentResponse::ListSessionsResponse(list(host.as_ref(), request).await?)
        }
        ClientRequest::CloseSessionRequest(request) => {
            connection.close(&id_of(&request.session_id)).await?;
            AgentResponse::CloseSessionResponse(CloseSessionResponse::new())
        }
        ClientRequest::DeleteSessionRequest(request) => {
            connection.delete(&id_of(&request.session_id)).await?;
            AgentResponse::DeleteSessionResponse(DeleteSessionResponse::new())
        }
        ClientRequest::SetSessionTitleRequest(request) => {
            connection.set_title(&id_of(&request.session_id), &request.title).await?;
            let answer = SetSessionTitleResponse::new(request.title);
            AgentResponse::SetSessionTitleResponse(answer)
        }
        ClientRequest::AuthenticateRequest(request) => {
            if !initialize::is_method(&connection.shared.identity, &request.method_id) {
                return Err(invalid(format!("there is no method {}", request.method_id.0)));
            }
            host.authenticate().await.map_err(|error| host_error(&error))?;
            AgentResponse::AuthenticateResponse(AuthenticateResponse::new())
        }
        ClientRequest::LogoutRequest(_) => {
            host.logout().await.map_err(|error| host_error(&error))?;
            AgentResponse::LogoutResponse(LogoutResponse::new())
        }
        ClientRequest::ListProvidersRequest(_) => {
            AgentResponse::ListProvidersResponse(providers::list(connection).await?)
        }
        ClientRequest::SetProviderRequest(request) => {
            AgentResponse::SetProviderResponse(providers::set(connection, request).await?)
        }
        ClientRequest::DisableProviderRequest(request) => {
            AgentResponse::DisableProviderResponse(providers::disable(connection, request).await?)
        }
        ClientRequest::ExtMethodRequest(request) => {
            let params = request.params.get();
            let answer = extension(connection, &request.method, params)?;
            let answer = to_raw_value(&answer).map_err(Error::into_internal_error)?;
            AgentResponse::ExtMethodResponse(ExtResponse::new(answer.into()))
        }
        other => {
            let mut error = Error::method_not_found();
            error.message = format!("{} is not supported", other.method());
            return Err(error);
        }
    })
}

fn extension(connection: &AcpConnection, method: &str, params: &str) -> Result<Value, Error> {
    // The library strips the leading underscore.
    match method.trim_start_matches('_') {
        "session/steering" => {
            let request: SteerRequest = serde_json::from_str(params)
                .map_err(|error| invalid(without_quotes(&error.to_string())))?;
            steer(connection, request)
        }
        _ => Err(Error::method_not_found()),
    }
}

/// Parameters of `session/steering`, an extension of several agents and clients: input in the middle of a run.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SteerRequest {
    session_id: schema::SessionId,
    prompt: Vec<ContentBlock>,
}

fn steer(connection: &AcpConnection, request: SteerRequest) -> Result<Value, Error> {
    let handle = connection.handle(&id_of(&request.session_id))?;
    let cwd = handle.metadata().crow().cwd;
    let blocks = prompt_blocks(request.prompt, &cwd).map_err(|fault| prompt_error(&fault))?;
    let outcome = if handle.state() == AgentState::Idle { "startedNewTurn" } else { "injected" };
    handle.steer(blocks).map_err(|error| handle_error(&error))?;
    Ok(json!({ "outcome": outcome }))
}

/// Wraps a responder as a reply whose result is converted by `answer`.
fn reply<T: 'static>(
    responder: Responder<AgentResponse>,
    answer: impl FnOnce(T) -> AgentResponse + Send + 'static,
) -> RequestReply<T> {
    RequestReply::new(move |result: Result<T, Error>| {
        // Fails only if the client is gone.
        drop(responder.respond_with_result(result.map(answer)));
    })
}

fn id_of(id: &schema::SessionId) -> SessionId {
    SessionId::new(id.0.to_string())
}

/// Number of sessions per page.
const PAGE: usize = 50;

/// Lists the used sessions, last updated first. The cursor names the last session of the previous page.
pub(super) async fn list(
    host: &dyn AgentHost,
    request: ListSessionsRequest,
) -> Result<ListSessionsResponse, Error> {
    if let Some(cwd) = &request.cwd {
        absolute(cwd, "cwd")?;
    }
    let after = request.cursor.as_deref().map(parse_cursor).transpose()?;
    // One more than a page, to know whether there are further pages.
    let filter = SessionFilter {
        cwd: request.cwd,
        limit: Some(PAGE + 1),
        after,
        unused: UnusedSessions::LeftOut,
    };
    let mut sessions = host.list(filter).await.map_err(|error| host_error(&error))?;
    let has_more = sessions.len() > PAGE;
    sessions.truncate(PAGE);
    let next = sessions.last().filter(|_| has_more).map(cursor);
    let sessions = sessions.iter().map(view::session_info).collect();
    Ok(ListSessionsResponse::new(sessions).next_cursor(next))
}

fn cursor(last: &SessionMetadata) -> String {
    format!("{} {}", last.updated_at, last.session_id)
}

fn parse_cursor(cursor: &str) -> Result<ListCursor, Error> {
    let parsed = cursor.split_once(' ').and_then(|(time, id)| {
        Some(ListCursor { updated_at: time.parse().ok()?, id: SessionId::new(id) })
    });
    parsed.ok_or_else(|| invalid("cursor: not one that session/list returned"))
}

/// A request of a client. Its parse errors state the reason without quoting the input.
#[derive(Debug, Clone)]
pub(super) struct ParsedRequest(pub ClientRequest);

impl JsonRpcMessage for ParsedRequest {
    fn matches_method(method: &str) -> bool {
        ClientRequest::matches_method(method)
    }

    fn method(&self) -> &str {
        self.0.method()
    }

    fn to_untyped_message(&self) -> Result<UntypedMessage, Error> {
        self.0.to_untyped_message()
    }

    fn parse_message(method: &str, params: &Value) -> Result<Self, Error> {
        ClientRequest::parse_message(method, params).map(Self).map_err(without_input)
    }
}

impl JsonRpcRequest for ParsedRequest {
    type Response = <ClientRequest as JsonRpcRequest>::Response;
}

fn without_input(mut error: Error) -> Error {
    let reason = error.data.as_ref().and_then(|data| data.get("error")).and_then(Value::as_str);
    error.data = reason.map(|reason| json!({ "error": without_quotes(reason) }));
    error
}

/// Replaces quoted input by `…`: in `invalid type: string "SECRET", expected a map` and in "unknown variant `SECRET`".
pub(super) fn without_quotes(reason: &str) -> String {
    if let (Some((before, _)), Some((_, after))) = (reason.split_once('"'), reason.rsplit_once('"'))
    {
        return format!("{before}…{after}");
    }
    // In all other messages backticks quote names of the protocol.
    let is_of_client = reason.starts_with("invalid ") || reason.starts_with("unknown variant");
    if is_of_client
        && let Some((before, rest)) = reason.split_once('`')
        && let Some((_, after)) = rest.split_once('`')
    {
        return format!("{before}…{after}");
    }
    reason.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_errors_keep_names_of_the_protocol() {
        for (why, expected) in [
            ("missing field `cwd`", "missing field `cwd`"),
            (
                "unknown variant `sk-0123`, expected `a` or `b`",
                "unknown variant …, expected `a` or `b`",
            ),
        ] {
            assert_eq!(without_quotes(why), expected);
        }
    }

    #[test]
    fn parse_errors_do_not_quote_the_input() {
        let gateway = |headers: Value| {
            json!({
                "providerId": "main",
                "apiType": "openai",
                "baseUrl": "https://sk-0123.test",
                "headers": headers,
            })
        };
        for (headers, why) in [
            (json!({ "a": 7, "b": "sk-0123" }), "invalid type: integer …, expected a string"),
            (json!("a \"sk-0123\""), "invalid type: string …, expected a map"),
        ] {
            let error = ParsedRequest::parse_message("providers/set", &gateway(headers));
            let error = error.unwrap_err();
            assert_eq!(error.data, Some(json!({ "error": why })));
            assert_eq!(i32::from(error.code), -32602);
        }
    }
}
