//! Error responses, and other answers that are not replies.

use bytes::Bytes;
use crow_core::model::{ProviderError, ProviderErrorKind};
use crow_providers::{RetryPolicy, Timeouts};
use crow_testkit::{BodyChunk, ModelServer, ScriptStep, VendorError};
use serde_json::json;

use crate::support::{DIALECTS, KEY, Talk};

async fn error_of(step: impl Into<ScriptStep>, dialect: usize) -> ProviderError {
    let server = ModelServer::start([step.into()]).await;
    let (dialect, wire_dialect) = DIALECTS[dialect];
    let base_url = server.base_url(wire_dialect);
    let mut talk = Talk::at(&base_url, dialect, RetryPolicy::never(), Timeouts::default());
    let error = talk.ask().await.error();
    server.assert_clean();
    error
}

fn http(status: u16, body: &str, header: (&str, &str)) -> ScriptStep {
    let headers = vec![(header.0.to_owned(), header.1.to_owned())];
    ScriptStep::Http { status, headers, body: Bytes::from(body.to_owned()) }
}

#[tokio::test]
async fn permanent_errors_are_reported_at_once_with_all_details() {
    for (error, kind) in [
        (VendorError::ContextLength, ProviderErrorKind::ContextLength),
        (VendorError::InvalidRequest("no good".to_owned()), ProviderErrorKind::InvalidRequest),
        (VendorError::Authentication, ProviderErrorKind::Auth),
        (VendorError::Permission, ProviderErrorKind::Permission),
        (VendorError::ModelNotFound, ProviderErrorKind::NotFound),
        (VendorError::Quota, ProviderErrorKind::Quota),
    ] {
        for dialect in 0..DIALECTS.len() {
            let error = error_of(ScriptStep::Error(error.clone()), dialect).await;
            assert_eq!(error.kind, kind, "{error}");
            assert_eq!(error.provider, "tested");
            assert!(error.url.starts_with("http://127.0.0.1:"), "{error}");
            assert!(error.status.is_some() && error.code.is_some() && !error.mid_stream);
            assert!(!error.message.contains('\n') && !error.message.is_empty());
        }
    }
    let error = error_of(ScriptStep::Error(VendorError::Authentication), 0).await;
    assert_eq!(error.request_id.as_deref(), Some("req_crow00000000"));
}

#[tokio::test]
async fn a_redirect_is_refused_so_that_the_key_is_not_sent_elsewhere() {
    let step = http(307, "", ("location", "https://elsewhere.test/v1/messages?x=1"));
    let error = error_of(step, 0).await;
    assert_eq!((error.kind, error.status), (ProviderErrorKind::NotFound, Some(307)));
    assert!(error.message.contains("https://elsewhere.test/v1/messages"), "{error}");
}

#[tokio::test]
async fn errors_do_not_contain_the_key_even_if_the_provider_echoes_it() {
    let body =
        json!({"error": {"type": KEY, "message": format!("bad key {KEY}, {}", KEY.repeat(40))}});
    for step in [
        http(400, &body.to_string(), ("request-id", KEY)),
        http(400, &format!("<html><title>{KEY}</title>"), ("content-type", "text/html")),
        http(400, &format!("{}{KEY}", "x".repeat(595)), ("content-type", "text/plain")),
        http(302, "", ("location", &format!("https://a.test/{KEY}"))),
        ScriptStep::Raw(vec![BodyChunk::data(format!(
            "event: error\ndata: {}\n\n",
            json!({"type": "error", "error": body["error"], "request_id": KEY})
        ))]),
        ScriptStep::Raw(vec![BodyChunk::data(format!("data: {KEY}\n\n"))]),
    ] {
        let error = error_of(step, 0).await;
        let shown = format!("{error} {error:?} {}", serde_json::to_string(&error).unwrap());
        assert!(!shown.contains("very-secret"), "{shown}");
    }
}

#[tokio::test]
async fn a_web_page_instead_of_a_stream_is_quoted_in_the_error() {
    let page = "<!DOCTYPE html><title>Sign in to the proxy</title>";
    let error = error_of(http(200, page, ("content-type", "text/html")), 0).await;
    assert_eq!(error.kind, ProviderErrorKind::Decode);
    assert!(error.message.contains("web page") && error.message.contains("Sign in to the proxy"));
}

#[tokio::test]
async fn an_error_body_with_a_success_status_is_an_error() {
    let body = r#"{"error":{"message":"no such model","code":404}}"#;
    let error = error_of(http(200, body, ("content-type", "application/json")), 1).await;
    assert_eq!(error.kind, ProviderErrorKind::NotFound);
}

#[tokio::test]
async fn an_event_that_is_not_json_is_a_decode_error() {
    for dialect in 0..DIALECTS.len() {
        let error =
            error_of(ScriptStep::Raw(vec![BodyChunk::data("data: {nonsense\n\n")]), dialect).await;
        assert_eq!(error.kind, ProviderErrorKind::Decode, "{error}");
    }
}
