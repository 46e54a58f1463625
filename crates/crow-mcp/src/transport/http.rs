//! Transport over streamable HTTP, by the one client of the process.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crow_core::capability::{Http, HttpError, HttpMethod, HttpReach, HttpRequest, HttpResponse};
use futures_util::{StreamExt as _, stream::BoxStream};
use http::{HeaderName, HeaderValue};
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::{
        StreamableHttpClientTransport,
        common::client_side_sse::SseRetryPolicy,
        streamable_http_client::{
            AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError,
            StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
            StreamableHttpPostResponse,
        },
    },
};
use sse_stream::Sse;

use super::{
    guarded::{LARGEST_MESSAGE, TransportState},
    server_transport::TransportError,
    sse::events,
};
use crate::{
    oauth::{LoginChallenge, ServerLogin},
    text,
};

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const AUTHORIZATION: &str = "authorization";
const SESSION: &str = "mcp-session-id";
/// Number of bytes of an error body that are shown.
const SHOWN: usize = 200;
/// Maximum number of bytes of an error body that are read.
const LARGEST_ERROR: usize = 16 * 1024;
/// Timeout of the head of a response. The body of a call may take longer: it streams.
const HEAD: Duration = Duration::from_mins(10);

/// Adapter from the protocol library to the one HTTP client of the process. It adds the access token of the login.
#[derive(Debug, Clone)]
pub(crate) struct HttpAdapter {
    http: Arc<dyn Http>,
    /// `None` if the user's headers authorize the requests, or there are no logins.
    login: Option<ServerLogin>,
    transport_state: Arc<TransportState>,
}

type HttpTransportResult = StreamableHttpError<HttpError>;

/// Creates the transport to a server.
pub(crate) fn transport(
    http: Arc<dyn Http>,
    url: &str,
    headers: HashMap<HeaderName, HeaderValue>,
    login: Option<ServerLogin>,
    transport_state: Arc<TransportState>,
) -> StreamableHttpClientTransport<HttpAdapter> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    config.custom_headers = headers;
    config.max_sse_event_size = LARGEST_MESSAGE;
    config.max_json_response_size = LARGEST_MESSAGE;
    config.retry_config = Arc::new(FewRetries);
    let adapter = HttpAdapter { http, login, transport_state };
    StreamableHttpClientTransport::with_client(adapter, config)
}

/// Policy of resuming broken streams: up to five attempts with doubling pauses.
#[derive(Debug)]
struct FewRetries;

impl SseRetryPolicy for FewRetries {
    fn retry(&self, times: usize) -> Option<Duration> {
        const MOST: usize = 5;
        let pause = Duration::from_millis(200);
        (times < MOST).then(|| pause.saturating_mul(1 << times.min(8)))
    }
}

impl HttpAdapter {
    /// Sends a request with the access token, if there is a login. If the server rejects the token, the request is sent
    /// once more with a renewed one.
    async fn ask(
        &self,
        method: HttpMethod,
        url: &str,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    ) -> Result<HttpResponse, HttpTransportResult> {
        // The end of a session is not worth a renewal.
        let may_renew = method != HttpMethod::Delete;
        let token = match &self.login {
            Some(login) if may_renew => login.access_token().await,
            Some(login) => login.stored_token().await,
            None => Ok(None),
        };
        let send = |token: Option<&str>| {
            let mut headers = headers.clone();
            headers
                .extend(token.map(|token| (AUTHORIZATION.to_owned(), format!("Bearer {token}"))));
            let (url, body) = (url.to_owned(), body.clone());
            self.send(HttpRequest { method, url, headers, body, reach: HttpReach::Any })
        };
        let answer = send(token.as_ref().ok().and_then(Option::as_deref)).await?;
        match (answer.status, &self.login, token) {
            // Most servers need no login, so an unusable one matters only now.
            (401, Some(_), Err(why)) => Err(login_error(why)),
            (401 | 403, Some(login), Ok(rejected)) if may_renew && login.is_without_user() => {
                let Some(challenge) = login_challenge(&answer) else { return Ok(answer) };
                let obtained = login.log_in_without_user(challenge, rejected.as_deref()).await;
                send(obtained.map_err(login_error)?.as_deref()).await
            }
            (401, Some(login), Ok(Some(rejected))) if may_renew => {
                match login.renew(Some(&rejected)).await.map_err(login_error)? {
                    Some(renewed) => send(Some(&renewed)).await,
                    None => Ok(answer),
                }
            }
            _ => Ok(answer),
        }
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpTransportResult> {
        let answer = tokio::time::timeout(HEAD, self.http.send(request)).await;
        let late = || HttpError::Broken(format!("no answer within {} s", HEAD.as_secs()));
        answer.map_err(|_| late()).and_then(|answer| answer).map_err(StreamableHttpError::Client)
    }

    /// Returns the error for a status other than success, and notes what it says about the login.
    async fn status_error(
        &self,
        answer: HttpResponse,
        was_in_session: bool,
    ) -> HttpTransportResult {
        let status = answer.status;
        if status == 404 && was_in_session {
            return StreamableHttpError::SessionExpired;
        }
        if status == 429 || status >= 500 {
            let after = header(&answer, "retry-after").map(str::to_owned);
            return HttpStatusError::new(status, after).into();
        }
        let is_without_user = self.login.as_ref().is_some_and(ServerLogin::is_without_user);
        let challenge = challenge_error(&answer).filter(|_| self.login.is_some());
        match challenge {
            // It was just obtained, so a login by the user would bring nothing else.
            Some(_) if is_without_user => {
                let why = match status {
                    403 => "it wants more permissions than the login without a user has",
                    _ => "it rejects the token that Crow obtained without a user",
                };
                return StreamableHttpError::UnexpectedServerResponse(why.into());
            }
            Some(error) => {
                self.transport_state.set_challenge(LoginChallenge::of(&error));
                return error;
            }
            None => {}
        }
        let hint = match status {
            401 | 403 => ": it rejects the credentials; set them in `headers` of its configuration",
            _ => "",
        };
        let shown = text::one_line(&read_error_body(answer).await, SHOWN);
        StreamableHttpError::UnexpectedServerResponse(format!("HTTP {status}{hint} {shown}").into())
    }
}

/// Returns what an answer says about the login that it wants; none if it wants none.
fn login_challenge(answer: &HttpResponse) -> Option<LoginChallenge> {
    challenge_error(answer).as_ref().and_then(LoginChallenge::of)
}

/// Returns the error for a status that asks for a login or for more scopes.
fn challenge_error(answer: &HttpResponse) -> Option<HttpTransportResult> {
    let challenges = answer.headers.iter().filter(|(name, _)| name == "www-authenticate");
    let challenges: Vec<&str> = challenges.map(|(_, value)| value.as_str()).collect();
    let challenge = (!challenges.is_empty()).then(|| challenges.join(", "));
    match (answer.status, challenge) {
        (401, challenge) => {
            let error = AuthRequiredError::new(challenge.unwrap_or_default());
            Some(StreamableHttpError::AuthRequired(error))
        }
        (403, Some(challenge)) if challenge.contains("insufficient_scope") => Some(
            StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge, None)),
        ),
        _ => None,
    }
}

/// Returns the text of an error of the transport, without the library's words around those of the HTTP client.
pub(crate) fn error_text(error: &(dyn std::error::Error + 'static)) -> String {
    let Some(TransportError::Http(http)) = error.downcast_ref() else { return error.to_string() };
    match http {
        StreamableHttpError::Client(HttpError::Request(why)) => why.clone(),
        StreamableHttpError::Client(error) => error.to_string(),
        StreamableHttpError::UnexpectedServerResponse(why) => why.to_string(),
        _ => error.to_string(),
    }
}

fn login_error(why: String) -> HttpTransportResult {
    StreamableHttpError::Client(HttpError::Request(why))
}

/// Returns the headers of a request. Custom headers cannot replace reserved ones; values that are not text are dropped.
fn headers(
    session: Option<Arc<str>>,
    custom: &HashMap<HeaderName, HeaderValue>,
    own: &[(&str, &str)],
) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> =
        own.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    all.extend(session.map(|session| (SESSION.to_owned(), session.to_string())));
    let reserved = ["accept", "content-type", SESSION, "last-event-id"];
    all.extend(
        custom
            .iter()
            .filter(|(name, _)| !reserved.contains(&name.as_str()))
            .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned()))),
    );
    all
}

fn header<'a>(answer: &'a HttpResponse, name: &str) -> Option<&'a str> {
    let mut headers = answer.headers.iter();
    headers.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

fn is_of_type(answer: &HttpResponse, wanted: &str) -> bool {
    let kind = header(answer, "content-type").unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(wanted))
}

/// Reads a body that is not an event stream. Fails if it exceeds the maximum size of a message.
async fn read_body(answer: HttpResponse) -> Result<Vec<u8>, HttpTransportResult> {
    let (mut body, mut all) = (answer.body, Vec::new());
    while let Some(bytes) = body.next().await {
        let bytes = bytes.map_err(StreamableHttpError::Client)?;
        if all.len() + bytes.len() > LARGEST_MESSAGE {
            return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: LARGEST_MESSAGE });
        }
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

/// Reads the beginning of an error body.
async fn read_error_body(answer: HttpResponse) -> String {
    let (mut body, mut all) = (answer.body, Vec::new());
    while let Some(Ok(bytes)) = body.next().await {
        all.extend_from_slice(&bytes);
        if all.len() >= LARGEST_ERROR {
            break;
        }
    }
    all.truncate(LARGEST_ERROR);
    String::from_utf8_lossy(&all).into_owned()
}

impl StreamableHttpClient for HttpAdapter {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpTransportResult> {
        let was_in_session = session_id.is_some();
        let id = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            ClientJsonRpcMessage::Notification(_)
            | ClientJsonRpcMessage::Response(_)
            | ClientJsonRpcMessage::Error(_) => None,
        };
        let is_request = id.is_some();
        let accept = format!("{JSON}, {EVENTS}");
        let own = [("accept", accept.as_str()), ("content-type", JSON)];
        let headers = headers(session_id, &custom_headers, &own);
        let body = serde_json::to_vec(&message)?;
        let answer = self.ask(HttpMethod::Post, &uri, headers, body).await?;
        // 1) Accepted without an answer in the body.
        if matches!(answer.status, 202 | 204) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        // 2) A stream of events.
        let session = header(&answer, SESSION).map(str::to_owned);
        let is_success = (200..300).contains(&answer.status);
        if is_of_type(&answer, EVENTS) && is_success {
            let events = events(answer.body, LARGEST_MESSAGE).boxed();
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        // 3) A single JSON message. For these four statuses the HTTP error says more than the body.
        if is_of_type(&answer, JSON) && !matches!(answer.status, 401 | 403 | 404 | 429) {
            let status = answer.status;
            let body = read_body(answer).await?;
            let parsed = serde_json::from_slice::<ServerJsonRpcMessage>(&body);
            return match parsed {
                // An error about the request as a whole, from a server that did not look up its id.
                Ok(ServerJsonRpcMessage::Error(error)) if is_request && error.id != id => {
                    if status == 400 && was_in_session {
                        // Some servers answer an unknown session this way.
                        return Err(StreamableHttpError::SessionExpired);
                    }
                    let error = ServerJsonRpcMessage::error(error.error, id);
                    Ok(StreamableHttpPostResponse::Json(error, session))
                }
                Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
                Err(_) if is_success && !is_request => Ok(StreamableHttpPostResponse::Accepted),
                Err(_) => {
                    let shown = text::one_line(&String::from_utf8_lossy(&body), SHOWN);
                    let text = format!("HTTP {status}, not a valid message: {shown}");
                    Err(StreamableHttpError::UnexpectedServerResponse(text.into()))
                }
            };
        }
        // 4) Anything else.
        if is_success && !is_request {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if is_success {
            let kind = header(&answer, "content-type").map(|kind| text::one_line(kind, 80));
            return Err(StreamableHttpError::UnexpectedContentType(kind));
        }
        Err(self.status_error(answer, was_in_session).await)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpTransportResult> {
        let headers = headers(Some(session_id), &custom_headers, &[]);
        self.ask(HttpMethod::Delete, &uri, headers, Vec::new()).await.map(drop)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpTransportResult> {
        let was_in_session = session_id.is_some();
        let mut headers = headers(session_id, &custom_headers, &[("accept", EVENTS)]);
        headers.extend(last_event_id.map(|id| ("last-event-id".to_owned(), id)));
        let answer = self.ask(HttpMethod::Get, &uri, headers, Vec::new()).await?;
        match answer.status {
            200..300 if is_of_type(&answer, EVENTS) => {
                Ok(events(answer.body, LARGEST_MESSAGE).boxed())
            }
            405 | 200..300 => Err(StreamableHttpError::ServerDoesNotSupportSse),
            _ => Err(self.status_error(answer, was_in_session).await),
        }
    }
}
