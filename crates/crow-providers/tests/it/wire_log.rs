//! The wire log of a client.

use std::sync::{Arc, Mutex};

use crow_core::model::ModelRequest;
use crow_providers::{
    ApiKey, Endpoint, HttpClient, HttpProvider, RetryPolicy, Timeouts, WireExchange, WireLog,
};
use crow_testkit::{Fault, ModelServer, ScriptStep, ScriptedReply, StreamGate, VendorError};

use crate::support::{DIALECTS, KEY, Talk, model, next_part};

#[derive(Debug, Default)]
struct RecordedExchanges(Mutex<Vec<WireExchange>>);

impl WireLog for RecordedExchanges {
    fn record(&self, exchange: WireExchange) {
        self.0.lock().unwrap().push(exchange);
    }
}

impl RecordedExchanges {
    fn take(&self) -> Vec<WireExchange> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn talk(server: &ModelServer) -> (Talk, Arc<RecordedExchanges>) {
    let (dialect, wire) = DIALECTS[0];
    let client = HttpClient::default();
    let log = Arc::new(RecordedExchanges::default());
    client.start_wire_log(Arc::clone(&log) as _);
    let endpoint = Endpoint {
        provider: "tested".to_owned(),
        dialect,
        base_url: server.base_url(wire),
        key: ApiKey::new(KEY),
        headers: Vec::new(),
    };
    let policy = RetryPolicy::without_waits(3);
    let provider =
        HttpProvider::with_timeouts(endpoint, client, policy, Timeouts::default()).unwrap();
    let talk = Talk::of(&provider, &model("test-model"));
    (talk, log)
}

#[tokio::test]
async fn each_attempt_is_recorded_once_with_its_outcome() {
    let server = ModelServer::start([
        ScriptStep::Error(VendorError::Overloaded),
        ScriptStep::from(ScriptedReply::new().text("Hi")),
    ])
    .await;
    let (mut talk, log) = talk(&server);
    assert!(talk.ask().await.reply.is_ok());
    let [failed, answered] = log.take().try_into().unwrap();
    assert_eq!((failed.attempt, answered.attempt), (1, 2));
    assert!(failed.error.is_some() && answered.error.is_none(), "{failed:?}");
    assert!(failed.response.contains("overloaded"), "{failed:?}");
    assert!(answered.request.contains("Hello") && answered.response.contains("Hi"));
    assert!(!format!("{failed:?}{answered:?}").contains(KEY));
    server.assert_clean();
}

#[tokio::test]
async fn an_attempt_that_is_cancelled_is_recorded_with_what_came_before() {
    let gate = StreamGate::new();
    let reply =
        ScriptedReply::new().text("Hi").with(Fault::StallAfter { events: 4, gate: gate.clone() });
    let server = ModelServer::start([reply]).await;
    let (mut talk, log) = talk(&server);
    let mut stream = talk.conversation.stream(ModelRequest {
        system: &talk.system,
        tools: &talk.tools,
        messages: &talk.messages,
        config: &talk.config,
        tool_choice: talk.tool_choice,
    });
    next_part(&mut stream).await;
    assert!(log.take().is_empty(), "it goes on");
    drop(stream);
    let [cancelled] = log.take().try_into().unwrap();
    assert_eq!(cancelled.error.as_deref(), Some("cancelled"));
    assert!(cancelled.response.contains("message_start"), "{cancelled:?}");
    server.finish().await.unwrap();
}
