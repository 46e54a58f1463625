//! The check of the telemetry of agents that run in the process of a test.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use crow_core::{
    capability::{Http, HttpError, HttpRequest, HttpResponse},
    event::{AgentEvent, Envelope},
    ids::SessionId,
};
use crow_runtime::{AgentRuntime, RuntimeConfig, SessionError, SessionFilter, SessionStore};
use crow_telemetry::{
    TelemetryFeed,
    otel::{OtelExporter, OtelSettings, SpanEncoder},
};

use super::record::{TelemetryRecord, TelemetryViolations};

/// Time for the export of one session.
const PATIENCE: Duration = Duration::from_secs(20);

/// Exports the telemetry of every session of a store when it is dropped, and panics if one does not fit the conventions.
///
/// The export happens afterwards, from the logs: an exporter beside the agent would set timers, which move the paused clock
/// of a test. A session that still runs is exported as far as it has come.
#[derive(Debug)]
pub struct StoreTelemetryCheck(Arc<dyn SessionStore>);

impl StoreTelemetryCheck {
    /// Checks the sessions of a store at the end.
    pub fn new(store: Arc<dyn SessionStore>) -> Self {
        Self(store)
    }
}

impl Drop for StoreTelemetryCheck {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let mut sessions = Vec::new();
        for root in self.0.list(&SessionFilter::default()).unwrap() {
            match durable_events(self.0.as_ref(), &root.session_id) {
                Ok(events) => sessions.push(events),
                // It was removed meanwhile, or the store of the test hides it.
                Err(SessionError::Unknown { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        // A thread of its own: tests are dropped inside of a runtime, which cannot block on another one.
        let check = move || sessions.iter().try_for_each(|events| check_events(events));
        let checked = std::thread::spawn(check).join().unwrap();
        checked.unwrap_or_else(|violations| panic!("{violations}"));
    }
}

/// An agent runtime whose sessions are held against the telemetry conventions when it is dropped.
#[derive(Debug)]
pub struct CheckedRuntime {
    runtime: AgentRuntime,
    _check: StoreTelemetryCheck,
}

impl CheckedRuntime {
    /// Creates a runtime.
    pub fn new(config: RuntimeConfig) -> Self {
        let check = StoreTelemetryCheck::new(Arc::clone(&config.store));
        Self { runtime: AgentRuntime::new(config), _check: check }
    }
}

impl Deref for CheckedRuntime {
    type Target = AgentRuntime;

    fn deref(&self) -> &AgentRuntime {
        &self.runtime
    }
}

/// Returns the durable events of a session and its descendants, in their order.
fn durable_events(
    store: &dyn SessionStore,
    root: &SessionId,
) -> Result<Vec<Envelope>, SessionError> {
    let mut pending = vec![root.clone()];
    let mut events: Vec<Envelope> = Vec::new();
    // Agents may be at work: what they log after the root was read would have no beginning.
    let mut until = None;
    while let Some(id) = pending.pop() {
        let stored = store.read(&id)?;
        let until = *until.get_or_insert_with(|| stored.events.iter().filter_map(|e| e.seq).max());
        events.extend(stored.events.into_iter().filter(|event| event.seq <= until));
        pending.extend(stored.metadata.child_session_ids);
    }
    events.sort_by_key(|event| event.seq);
    Ok(events)
}

fn check_events(events: &[Envelope]) -> Result<(), TelemetryViolations> {
    let settings = OtelSettings::from_variables(|name| match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some("http://127.0.0.1".to_owned()),
        "OTEL_BSP_MAX_QUEUE_SIZE" => Some("1000000".to_owned()),
        _ => None,
    });
    let settings = settings.unwrap().expect("invariant: there is an endpoint");
    let collector = Arc::new(RecordingHttp::default());
    let http = Arc::clone(&collector);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let report = runtime.block_on(async {
        let program = ("crow-testkit", env!("CARGO_PKG_VERSION"), "test");
        let exporter = OtelExporter::start(settings, SpanEncoder::default(), program, http);
        let consumer = exporter.consumer();
        let mut feed = TelemetryFeed::new().with_internal(consumer.clone()).with_acp(consumer);
        for event in events {
            feed.on_event(event);
        }
        feed.finish();
        exporter.shut_down(PATIENCE).await
    });
    assert_eq!(report.dropped, 0, "the collector took not all");
    let record = collector.0.lock().unwrap_or_else(PoisonError::into_inner);
    let is_run = |event: &Envelope| matches!(event.event, AgentEvent::RunStart { .. });
    assert_eq!(
        (record.spans().is_empty(), record.metrics().next().is_none()),
        if events.iter().any(is_run) { (false, false) } else { (true, true) },
        "what a run exports, and nothing else"
    );
    record.check()
}

/// A collector without a server.
#[derive(Debug, Default)]
struct RecordingHttp(Mutex<TelemetryRecord>);

#[async_trait]
impl Http for RecordingHttp {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let path = request.url.strip_prefix("http://127.0.0.1").unwrap_or(&request.url);
        let mut record = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let status = if record.receive(path, &request.body) { 200 } else { 404 };
        let headers = vec![("content-type".to_owned(), "application/x-protobuf".to_owned())];
        Ok(HttpResponse { status, headers, body: Box::pin(futures_util::stream::empty()) })
    }
}
