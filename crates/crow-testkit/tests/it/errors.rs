//! Tests of the vendors' error responses.

use std::time::Duration;

use bytes::Bytes;
use crow_testkit::{ModelServer, ScriptStep, VendorError, WireDialect};
use serde_json::{Value, json};

use crate::bodies::first_request;
use crate::client::{Client, Response};

async fn ask(dialect: WireDialect, step: ScriptStep) -> Response {
    let server = ModelServer::start([step]).await;
    let mut client = Client::connect(&server).await;
    let response = client.ask(dialect, &first_request(dialect, "A")).await;
    assert_eq!(server.connections(), 1);
    server.assert_clean();
    response
}

#[tokio::test]
async fn every_error_has_its_vendors_status_and_code() {
    let limited = VendorError::RateLimited { retry_after: Some(Duration::from_secs(7)) };
    // HTTP statuses of Anthropic, OpenAI and Gemini; then Anthropic's type, OpenAI's code and Gemini's status
    let table: [(VendorError, [u16; 3], [Value; 3]); 8] = [
        (
            VendorError::ContextLength,
            [400, 400, 400],
            [
                json!("invalid_request_error"),
                json!("context_length_exceeded"),
                json!("INVALID_ARGUMENT"),
            ],
        ),
        (
            VendorError::Authentication,
            [401, 401, 400],
            [json!("authentication_error"), json!("invalid_api_key"), json!("INVALID_ARGUMENT")],
        ),
        (
            VendorError::Permission,
            [403, 403, 403],
            [
                json!("permission_error"),
                json!("insufficient_permissions"),
                json!("PERMISSION_DENIED"),
            ],
        ),
        (
            VendorError::ModelNotFound,
            [404, 404, 404],
            [json!("not_found_error"), json!("model_not_found"), json!("NOT_FOUND")],
        ),
        (
            limited,
            [429, 429, 429],
            [json!("rate_limit_error"), json!("rate_limit_exceeded"), json!("RESOURCE_EXHAUSTED")],
        ),
        (
            VendorError::Quota,
            [400, 429, 429],
            [
                json!("invalid_request_error"),
                json!("insufficient_quota"),
                json!("RESOURCE_EXHAUSTED"),
            ],
        ),
        (
            VendorError::Server,
            [500, 500, 500],
            [json!("api_error"), Value::Null, json!("INTERNAL")],
        ),
        (
            VendorError::Overloaded,
            [529, 503, 503],
            [json!("overloaded_error"), json!("server_is_overloaded"), json!("UNAVAILABLE")],
        ),
    ];
    for (error, statuses, words) in table {
        for dialect in WireDialect::ALL {
            let (vendor, pointer) = match dialect {
                WireDialect::AnthropicMessages => (0, "/error/type"),
                WireDialect::OpenAiResponses | WireDialect::OpenAiChat => (1, "/error/code"),
                WireDialect::Gemini => (2, "/error/status"),
            };
            let response = ask(dialect, ScriptStep::Error(error.clone())).await;
            assert_eq!(response.status, statuses[vendor], "{error:?} {dialect:?}");
            let body = response.json();
            assert_eq!(body.pointer(pointer), Some(&words[vendor]), "{error:?} {dialect:?}");
            assert_eq!(response.header("content-type"), Some("application/json"));
        }
    }
}

#[tokio::test]
async fn a_rate_limit_gives_its_wait_in_each_vendors_form() {
    let limited =
        ScriptStep::Error(VendorError::RateLimited { retry_after: Some(Duration::from_secs(7)) });
    for dialect in
        [WireDialect::AnthropicMessages, WireDialect::OpenAiResponses, WireDialect::OpenAiChat]
    {
        let response = ask(dialect, limited.clone()).await;
        assert_eq!(response.header("retry-after"), Some("7"), "{dialect:?}");
    }
    let gemini = ask(WireDialect::Gemini, limited).await;
    assert_eq!(gemini.header("retry-after"), None);
    assert_eq!(gemini.json()["error"]["details"][1]["retryDelay"], "7s");
}

#[tokio::test]
async fn any_http_answer_can_be_scripted() {
    let step = ScriptStep::Http {
        status: 302,
        headers: vec![("location".to_owned(), "/elsewhere".to_owned())],
        body: Bytes::from_static(b"{}"),
    };
    let response = ask(WireDialect::OpenAiChat, step).await;
    assert_eq!((response.status, response.header("location")), (302, Some("/elsewhere")));
    assert_eq!(response.header("content-type"), Some("application/json"));
}
