//! Retries of requests.

use std::time::{Duration, Instant};

use crow_core::model::{ModelEvent, ModelRequest, ProviderErrorKind};
use crow_providers::{RetryPolicy, Timeouts};
use crow_testkit::{ModelServer, ScriptStep, ScriptedReply, VendorError, refused_base_url};
use futures_util::{StreamExt as _, future::join_all};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::support::{DIALECTS, Talk};

#[tokio::test]
async fn a_retry_sends_the_same_bytes() {
    for dialect in DIALECTS {
        for error in [VendorError::Server, VendorError::Overloaded] {
            let script =
                vec![ScriptStep::Error(error), ScriptStep::from(ScriptedReply::new().text("Hi"))];
            let server = ModelServer::start(script).await;
            let outcome = Talk::with(&server, dialect).ask().await;
            assert!(outcome.reply.is_ok());
            assert_eq!(outcome.retries()[0].attempt, 1);
            let requests = server.finish().await.unwrap();
            assert_eq!(requests[0].raw_body, requests[1].raw_body);
        }
    }
}

#[tokio::test]
async fn a_retry_waits_as_long_as_the_provider_asks() {
    let wait = Duration::from_secs(1);
    let waits = DIALECTS.map(async |dialect| {
        let limited = VendorError::RateLimited { retry_after: Some(wait) };
        let script =
            vec![ScriptStep::Error(limited), ScriptStep::from(ScriptedReply::new().text("Hi"))];
        let server = ModelServer::start(script).await;
        let began = Instant::now();
        let outcome = Talk::with(&server, dialect).ask().await;
        assert!(outcome.reply.is_ok());
        assert_eq!(outcome.retries()[0].wait, wait);
        assert!(began.elapsed() >= wait);
        server.assert_clean();
    });
    join_all(waits).await;
}

#[tokio::test]
async fn a_retry_after_that_is_too_long_is_reported_as_an_error() {
    let wait = Duration::from_mins(10);
    let limited = VendorError::RateLimited { retry_after: Some(wait) };
    let server = ModelServer::start([ScriptStep::Error(limited)]).await;
    let error = Talk::with(&server, DIALECTS[0]).ask().await.error();
    assert_eq!((error.kind, error.retry_after), (ProviderErrorKind::RateLimited, Some(wait)));
    assert!(error.message.contains("it asks for a wait of 10 min, until 2"), "{error}");
    server.assert_clean();
}

#[tokio::test]
async fn the_number_of_attempts_is_limited() {
    let script: Vec<_> = (0..3).map(|_| ScriptStep::Error(VendorError::Overloaded)).collect();
    let server = ModelServer::start(script).await;
    let outcome = Talk::with(&server, DIALECTS[0]).ask().await;
    assert_eq!(outcome.retries().len(), 2);
    assert_eq!(outcome.error().status, Some(529));
    assert_eq!(server.finish().await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_refused_connection_is_reported_at_once() {
    let base_url = refused_base_url(DIALECTS[0].1).await;
    let mut talk = Talk::at(&base_url, DIALECTS[0].0, RetryPolicy::default(), Timeouts::default());
    let began = Instant::now();
    let mut stream = talk.conversation.stream(ModelRequest {
        system: &talk.system,
        tools: &talk.tools,
        messages: &talk.messages,
        config: &talk.config,
        tool_choice: talk.tool_choice,
    });
    let first = stream.next().await;
    assert!(began.elapsed() < Duration::from_secs(1));
    let Some(Ok(ModelEvent::Retrying(retry))) = first else { panic!("{first:?}") };
    assert_eq!(retry.error.kind, ProviderErrorKind::Network);
    assert!(retry.error.message.contains("refused the connection"), "{}", retry.error);
    assert!(retry.error.message.contains("127.0.0.1:"), "{}", retry.error);
}

#[tokio::test]
async fn the_error_of_an_unknown_host_contains_its_name() {
    let mut talk = Talk::at(
        "http://no-such-host.invalid",
        DIALECTS[0].0,
        RetryPolicy::never(),
        Timeouts::default(),
    );
    let error = talk.ask().await.error();
    assert_eq!(error.kind, ProviderErrorKind::Network);
    assert!(error.message.contains("no-such-host.invalid"), "{error}");
}

#[tokio::test]
async fn a_server_without_tls_is_recognised_and_not_retried() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let base_url = format!("https://{}", listener.local_addr().unwrap());
    let mut talk =
        Talk::at(&base_url, DIALECTS[0].0, RetryPolicy::without_waits(3), Timeouts::default());
    let answer = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        // The client's first bytes are read, so that closing does not reset the connection.
        drop(stream.read(&mut [0; 4096]).await);
    };
    let (outcome, ()) = tokio::join!(talk.ask(), answer);
    assert!(outcome.retries().is_empty(), "{outcome:?}");
    let error = outcome.error();
    assert!(error.message.contains("does not speak TLS"), "{error}");
}
