//! Servers over HTTP, without a network.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use crow_core::{
    capability::{Http, HttpError, HttpMethod, HttpRequest, HttpResponse},
    mcp::{McpServerConfig, McpTransport},
    tool::{ToolSource as _, ToolStatus},
};
use crow_mcp::{ConnectionContext, McpSettings, McpTools};
use futures_util::stream;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{NoHttp, call, context, text_result, tool};

type Serve = dyn Fn(usize, &HttpRequest, &Value) -> Result<HttpResponse, HttpError> + Send + Sync;

/// A server whose answers a test defines.
struct FakeHttp {
    serve: Box<Serve>,
    requests: Mutex<Vec<HttpRequest>>,
}

impl fmt::Debug for FakeHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FakeHttp")
    }
}

#[async_trait]
impl Http for FakeHttp {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let number = {
            let mut requests = self.requests.lock().unwrap();
            requests.push(request.clone());
            requests.len()
        };
        let message = serde_json::from_slice(&request.body).unwrap_or_default();
        (self.serve)(number, &request, &message)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "what a server answers, or that it does not")]
#[expect(clippy::needless_pass_by_value, reason = "is made for each answer")]
fn answer(status: u16, kind: &str, body: Vec<u8>) -> Result<HttpResponse, HttpError> {
    let headers = vec![
        ("content-type".to_owned(), kind.to_owned()),
        ("mcp-session-id".to_owned(), "s-1".to_owned()),
    ];
    // In pieces, as from a network.
    let pieces: Vec<_> = body.chunks(7).map(|piece| Ok(piece.to_vec())).collect();
    Ok(HttpResponse { status, headers, body: Box::pin(stream::iter(pieces)) })
}

#[expect(clippy::needless_pass_by_value, reason = "is made for each answer")]
fn json_answer(message: &Value, result: Value) -> Result<HttpResponse, HttpError> {
    let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    answer(200, "application/json; charset=utf-8", body.to_string().into_bytes())
}

fn events(messages: &[Value]) -> Result<HttpResponse, HttpError> {
    let lines: Vec<String> = messages.iter().map(|one| format!("data: {one}\n\n")).collect();
    let text = lines.concat();
    answer(200, "text/event-stream", text.into_bytes())
}

/// Returns the answers of an ordinary server to everything but calls.
fn ordinary(request: &HttpRequest, message: &Value) -> Result<HttpResponse, HttpError> {
    match (request.method, message["method"].as_str()) {
        (HttpMethod::Get, _) => answer(405, "text/plain", Vec::new()),
        (HttpMethod::Post, Some("initialize")) => json_answer(
            message,
            json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "fake", "version": "1"},
            }),
        ),
        (HttpMethod::Post, Some("tools/list")) => events(&[
            json!({"jsonrpc": "2.0", "id": message["id"], "result": {"tools": [tool("t")]}}),
        ]),
        _ => answer(202, "text/plain", Vec::new()),
    }
}

fn settings() -> McpSettings {
    let headers = BTreeMap::from([("Authorization".to_owned(), "Bearer hunter2".to_owned())]);
    let url = "https://mcp.test/mcp".to_owned();
    McpServerConfig { name: "web".to_owned(), transport: McpTransport::Http { url, headers } }
        .into()
}

async fn session(
    serve: impl Fn(usize, &HttpRequest, &Value) -> Result<HttpResponse, HttpError>
    + Send
    + Sync
    + 'static,
) -> (McpTools, Arc<FakeHttp>) {
    let http = Arc::new(FakeHttp { serve: Box::new(serve), requests: Mutex::default() });
    let outside = ConnectionContext {
        processes: Arc::new(crate::support::Fakes::none()),
        http: Arc::clone(&http) as _,
        roots: vec!["/p".into()],
        logins: None,
        browser: None,
    };
    let tools = McpTools::new(vec![settings()], None, outside);
    tools.ready(&CancellationToken::new()).await;
    (tools, http)
}

async fn call_first_tool(tools: &McpTools) -> crow_core::tool::ToolResult {
    let all = tools.tools();
    let tool = all.tools.first().unwrap_or_else(|| panic!("{:?}", tools.take_notices()));
    call(tool.as_ref(), json!({"a": 1}), &context()).await
}

#[tokio::test]
async fn calls_are_answered_by_json_or_events_and_requests_carry_the_headers() {
    for streams in [false, true] {
        let (tools, http) = session(move |_, request, message| {
            if message["method"] != "tools/call" {
                return ordinary(request, message);
            }
            let result = text_result(&message["params"]["arguments"].to_string());
            if !streams {
                return json_answer(message, result);
            }
            let params = json!({"progressToken": message["params"]["_meta"]["progressToken"], "progress": 1});
            events(&[
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
                json!({"jsonrpc": "2.0", "id": message["id"], "result": result}),
            ])
        })
        .await;
        let result = call_first_tool(&tools).await;
        assert_eq!((result.status, result.output.as_str()), (ToolStatus::Success, r#"{"a":1}"#));
        tools.close().await;
        let requests = http.requests.lock().unwrap();
        for request in requests.iter() {
            let authorization = ("authorization".to_owned(), "Bearer hunter2".to_owned());
            assert!(request.headers.contains(&authorization), "{request:?}");
        }
        let call = requests
            .iter()
            .find(|request| String::from_utf8_lossy(&request.body).contains("tools/call"));
        let session = ("mcp-session-id".to_owned(), "s-1".to_owned());
        assert!(call.unwrap().headers.contains(&session), "{call:?}");
    }
}

#[tokio::test]
async fn a_401_is_reported_without_revealing_the_configured_secret() {
    let (tools, _) =
        session(|_, _, _| answer(401, "text/html", b"<h1>Who are you?</h1>".to_vec())).await;
    let news = tools.take_notices().remove(0).text;
    assert!(
        news.contains("HTTP 401: it rejects the credentials") && !news.contains("hunter2"),
        "{news}"
    );
}

#[tokio::test]
async fn an_unreachable_server_is_reported_with_the_network_error() {
    let (tools, _) =
        session(|_, _, _| Err(HttpError::Connect("refused by 127.0.0.1".to_owned()))).await;
    let news = tools.take_notices().remove(0).text;
    assert!(news.contains("cannot connect: refused by 127.0.0.1"), "{news}");
}

#[tokio::test]
async fn a_call_that_failed_to_connect_is_resent_over_a_new_connection() {
    let failed = Mutex::new(false);
    let (tools, http) = session(move |_, request, message| {
        if message["method"] != "tools/call" {
            return ordinary(request, message);
        }
        if !std::mem::replace(&mut *failed.lock().unwrap(), true) {
            return Err(HttpError::Connect("refused".to_owned()));
        }
        json_answer(message, text_result("second"))
    })
    .await;
    assert_eq!(call_first_tool(&tools).await.output, "second");
    let handshakes = http
        .requests
        .lock()
        .unwrap()
        .iter()
        .filter(|request| String::from_utf8_lossy(&request.body).contains("\"initialize\""))
        .count();
    assert_eq!(handshakes, 2);
}

#[tokio::test]
async fn a_call_whose_connection_broke_is_not_resent() {
    let (tools, http) = session(|_, request, message| {
        if message["method"] == "tools/call" {
            return Err(HttpError::Broken("reset".to_owned()));
        }
        ordinary(request, message)
    })
    .await;
    let result = call_first_tool(&tools).await;
    assert!(
        result.output.contains("it is unclear whether the call had effects"),
        "{}",
        result.output
    );
    let calls = http
        .requests
        .lock()
        .unwrap()
        .iter()
        .filter(|request| String::from_utf8_lossy(&request.body).contains("tools/call"))
        .count();
    assert_eq!(calls, 1);
}

#[tokio::test]
async fn a_session_that_the_server_forgot_is_initialized_again() {
    let bad = json!({"jsonrpc": "2.0", "error": {"code": -32000, "message": "Bad Request: No valid session ID"}, "id": null});
    for (status, body) in [(404, "{}".to_owned()), (400, bad.to_string())] {
        let forgot = Mutex::new(false);
        let (tools, _) = session(move |_, request, message| {
            if message["method"] != "tools/call" {
                return ordinary(request, message);
            }
            if !std::mem::replace(&mut *forgot.lock().unwrap(), true) {
                return answer(status, "application/json", body.clone().into_bytes());
            }
            json_answer(message, text_result("after"))
        })
        .await;
        assert_eq!(call_first_tool(&tools).await.output, "after", "{status}");
    }
}

#[tokio::test]
async fn an_error_without_the_calls_id_ends_the_call_that_it_answers() {
    let (tools, _) = session(|_, request, message| {
        if message["method"] != "tools/call" {
            return ordinary(request, message);
        }
        let body = json!({"jsonrpc": "2.0", "error": {"code": -32000, "message": "too busy"}, "id": "server-error"});
        answer(503, "application/json", body.to_string().into_bytes())
    })
    .await;
    let result = call_first_tool(&tools).await;
    assert_eq!(result.output, "MCP server web: the server refused the call: too busy");
}

#[tokio::test]
async fn an_endless_answer_fails_at_the_size_limit() {
    let (tools, _) = session(|_, request, message| {
        if message["method"] != "tools/call" {
            return ordinary(request, message);
        }
        let piece = || Ok(vec![b'x'; 1024 * 1024]);
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let body = Box::pin(stream::iter(std::iter::repeat_with(piece)));
        Ok(HttpResponse { status: 200, headers, body })
    })
    .await;
    let result = call_first_tool(&tools).await;
    assert!(result.is_error() && result.output.contains("maximum size"), "{}", result.output);
}

#[tokio::test]
async fn an_invalid_header_is_reported_by_name_without_its_value() {
    let mut settings = settings();
    settings.server.transport = McpTransport::Http {
        url: "http://x.test".to_owned(),
        headers: BTreeMap::from([("x-key".to_owned(), "hunter2\n".to_owned())]),
    };
    let outside = ConnectionContext {
        processes: Arc::new(crate::support::Fakes::none()),
        http: Arc::new(NoHttp),
        roots: Vec::new(),
        logins: None,
        browser: None,
    };
    let tools = McpTools::new(vec![settings], None, outside);
    tools.ready(&CancellationToken::new()).await;
    let news = tools.take_notices().remove(0).text;
    assert!(
        news.contains("the header x-key cannot be sent") && !news.contains("hunter2"),
        "{news}"
    );
}
