//! The exporter: a bounded queue, and a task that sends what is in it.
//!
//! Agents never wait for it. What finds no room in the queue is dropped and counted; so is a batch that a collector did not
//! take after a few attempts. One request is on its way at a time: a slow collector costs spans, and before them the content
//! of their calls, but not memory.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crow_core::{
    capability::{Http, HttpMethod, HttpReach, HttpRequest},
    event::{AgentEvent, Envelope, NoticeAudience, NoticeLevel},
    ids::SessionId,
    trace::TraceId,
};
use crow_text::shorten;
use futures_util::StreamExt as _;
use jiff::Timestamp;
use prost::Message as _;
use tokio::{sync::mpsc, task::JoinHandle, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

#[cfg(feature = "grpc")]
use super::grpc::GrpcConnections;
use super::{
    ContentCapture, OtelEndpoint, OtelSettings, OtlpProtocol, SpanEncoder,
    conventions::unix_nano,
    messages::{
        Attribute, AttributeValue, LogRecord, LogsRequest, MetricsRequest, OtelSpan, Resource,
        ResourceLogs, ResourceMetrics, ResourceSpans, Scalar, Scope, ScopeLogs, ScopeMetrics,
        ScopeSpans, TraceRequest, attribute,
    },
    metrics::MetricSums,
};
use crate::{AcpTelemetry, InternalTelemetry, TraceSpan};

/// Number of times that a batch is sent before it is dropped.
const ATTEMPTS: u32 = 3;
/// Wait before the second attempt; it doubles.
const BACKOFF: Duration = Duration::from_millis(500);
/// Maximum length of the text of a log record, in bytes.
const LOG_TEXT: usize = 2_000;
/// Maximum size of the content of calls in the queue, in bytes: spans beyond it are sent without content.
const MAX_QUEUED_CONTENT: usize = 16 << 20;
/// Size of the content of calls in a batch at which it is sent, in bytes: collectors refuse requests of more than 4 MiB.
const BATCH_CONTENT: usize = 1 << 20;

/// The numbers of what was sent and what was not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OtelReport {
    /// Spans and log records that a collector took.
    pub sent: u64,
    /// Those that found no room in the queue, or that no collector took in time.
    pub dropped: u64,
}

#[derive(Debug, Default)]
struct ExportCounts {
    /// All that there was to send.
    offered: AtomicU64,
    sent: AtomicU64,
    /// What was left out on purpose: it is not sampled, or its signal is off.
    left_out: AtomicU64,
}

impl ExportCounts {
    fn report(&self) -> OtelReport {
        let sent = self.sent.load(Ordering::Relaxed);
        let settled = sent + self.left_out.load(Ordering::Relaxed);
        OtelReport { sent, dropped: self.offered.load(Ordering::Relaxed).saturating_sub(settled) }
    }
}

/// What waits to be sent.
#[derive(Debug)]
enum QueuedSignal {
    Span(Box<TraceSpan>),
    Log(SessionLogRecord),
}

/// A warning or an error of a session.
#[derive(Debug)]
struct SessionLogRecord {
    time: Timestamp,
    trace_id: Option<TraceId>,
    session_id: SessionId,
    severity: LogSeverity,
    /// What it says. Content: passed on only if that is wanted.
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogSeverity {
    Warning,
    Error,
}

/// Consumer of the telemetry of one root session, for the exporter that it is from. Cheap to clone.
#[derive(Debug, Clone)]
pub struct OtelConsumer {
    queue: mpsc::Sender<QueuedSignal>,
    counts: Arc<ExportCounts>,
    /// The size of the content of calls in the queue, in bytes.
    queued_content: Arc<AtomicUsize>,
    /// Counted here, so that a full queue costs spans and no counts.
    metrics: Arc<Mutex<MetricSums>>,
    /// The trace of the run that goes on.
    trace_id: Option<TraceId>,
}

/// Sends telemetry until it is shut down.
#[derive(Debug)]
pub struct OtelExporter {
    consumer: OtelConsumer,
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl OtelExporter {
    /// Starts to send telemetry of the program with this name, version and id of its process. Needs a tokio runtime.
    pub fn start(
        settings: OtelSettings,
        encoder: SpanEncoder,
        (name, version, instance): (&str, &str, &str),
        http: Arc<dyn Http>,
    ) -> Self {
        let (queue, receiver) = mpsc::channel(settings.queue);
        let counts = Arc::<ExportCounts>::default();
        let stop = CancellationToken::new();
        let resource = Resource { attributes: resource(&settings, name, version, instance) };
        let scope = Scope { name: "crow".to_owned(), version: version.to_owned() };
        let metrics = MetricSums::new(Timestamp::now(), settings.conventions);
        let metrics = Arc::new(Mutex::new(metrics));
        let queued_content = Arc::<AtomicUsize>::default();
        let sender = OtlpSender {
            queued_content: Arc::clone(&queued_content),
            metrics: Arc::clone(&metrics),
            settings,
            encoder,
            http,
            resource,
            scope,
            counts: Arc::clone(&counts),
            #[cfg(feature = "grpc")]
            grpc: GrpcConnections::default(),
        };
        // It ends with the last consumer, or when it is shut down.
        let task = TaskTracker::new().spawn(sender.run(receiver, stop.clone()));
        let consumer = OtelConsumer { queue, counts, queued_content, metrics, trace_id: None };
        Self { consumer, task, stop }
    }

    /// Returns a consumer for a root session.
    pub fn consumer(&self) -> OtelConsumer {
        self.consumer.clone()
    }

    /// Sends what is left, for at most this long, and ends.
    pub async fn shut_down(self, patience: Duration) -> OtelReport {
        let Self { consumer: OtelConsumer { queue, counts, .. }, mut task, stop } = self;
        drop(queue);
        stop.cancel();
        if tokio::time::timeout(patience, &mut task).await.is_err() {
            task.abort();
        }
        counts.report()
    }
}

impl OtelConsumer {
    /// Puts a signal into the queue; returns false if there was no room, and it is lost.
    fn enqueue(&self, signal: QueuedSignal) -> bool {
        self.counts.offered.fetch_add(1, Ordering::Relaxed);
        self.queue.try_send(signal).is_ok()
    }
}

impl InternalTelemetry for OtelConsumer {
    fn record_span(&mut self, span: &TraceSpan) {
        lock(&self.metrics).record(span);
        let mut span = span.clone();
        let content_len = span.call_content_len();
        if self.queued_content.load(Ordering::Relaxed) + content_len > MAX_QUEUED_CONTENT {
            span = span.without_call_content();
        } else {
            self.queued_content.fetch_add(content_len, Ordering::Relaxed);
        }
        if !self.enqueue(QueuedSignal::Span(Box::new(span))) {
            self.queued_content.fetch_sub(content_len, Ordering::Relaxed);
        }
    }
}

impl AcpTelemetry for OtelConsumer {
    fn record_prompt_start(&mut self, start: &Envelope) {
        if let AgentEvent::RunStart { run_id, .. } = &start.event {
            self.trace_id = Some(TraceId::of_run(&start.root_id, run_id));
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only warnings and errors are sent as logs")]
    fn record_stream_event(&mut self, event: &Envelope) {
        let (severity, text) = match &event.event {
            AgentEvent::Error { error, .. } => (LogSeverity::Error, error),
            AgentEvent::Notice {
                level: NoticeLevel::Warning,
                audience: NoticeAudience::User,
                text,
            } => (LogSeverity::Warning, text),
            _ => return,
        };
        self.enqueue(QueuedSignal::Log(SessionLogRecord {
            time: event.time,
            trace_id: self.trace_id,
            session_id: event.session_id.clone(),
            severity,
            text: shorten(text, LOG_TEXT),
        }));
    }
}

/// Returns the attributes of the program.
fn resource(settings: &OtelSettings, name: &str, version: &str, instance: &str) -> Vec<Attribute> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let given = |key: &str| settings.resource.iter().any(|(given, _)| given == key);
    let own = [
        ("service.name", name),
        ("service.version", version),
        ("service.instance.id", instance),
        ("host.arch", architecture),
        ("os.type", system),
    ];
    let own = own.into_iter().filter(|(key, _)| !given(key));
    let mut attributes: Vec<_> = own.map(|(key, value)| attribute(key, value)).collect();
    attributes.push(attribute("process.pid", std::process::id()));
    attributes.push(attribute("telemetry.sdk.language", "rust"));
    attributes.push(attribute("telemetry.sdk.name", "crow"));
    let given = settings.resource.iter();
    attributes.extend(given.map(|(key, value)| attribute(key, value.as_str())));
    attributes
}

/// What is sent to an endpoint of its own.
#[derive(Debug, Clone, Copy)]
enum SentSignal {
    Traces,
    Metrics,
    Logs,
}

impl SentSignal {
    /// Returns the method of the collector that takes it over gRPC.
    #[cfg(feature = "grpc")]
    fn grpc_method(self) -> &'static str {
        match self {
            Self::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Self::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            Self::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        }
    }
}

/// Why a request was not taken.
#[derive(Debug)]
pub(super) enum SendFailure {
    /// The same request may be taken later.
    Transient(String),
    /// It never will.
    Final(String),
}

/// What the next requests have.
#[derive(Debug, Default)]
struct SignalBatch {
    spans: Vec<OtelSpan>,
    logs: Vec<LogRecord>,
    /// The size of the content of calls in the spans, in bytes.
    content_len: usize,
}

impl SignalBatch {
    fn len(&self) -> usize {
        self.spans.len() + self.logs.len()
    }
}

/// The task that sends.
struct OtlpSender {
    settings: OtelSettings,
    encoder: SpanEncoder,
    http: Arc<dyn Http>,
    resource: Resource,
    scope: Scope,
    metrics: Arc<Mutex<MetricSums>>,
    queued_content: Arc<AtomicUsize>,
    counts: Arc<ExportCounts>,
    #[cfg(feature = "grpc")]
    grpc: GrpcConnections,
}

impl OtlpSender {
    async fn run(mut self, mut queue: mpsc::Receiver<QueuedSignal>, stop: CancellationToken) {
        let mut batch = SignalBatch::default();
        let mut signals: Vec<QueuedSignal> = Vec::new();
        let mut due: Option<Instant> = None;
        let mut metrics_due = Instant::now() + self.settings.metrics_interval;
        loop {
            let room = self.room(&batch);
            let wake = due.map_or(metrics_due, |due| due.min(metrics_due));
            let is_open = tokio::select! {
                received = queue.recv_many(&mut signals, room) => received > 0,
                () = tokio::time::sleep_until(wake) => true,
                () = stop.cancelled() => false,
            };
            self.take(&mut signals, &mut batch);
            if !is_open {
                break;
            }
            if batch.len() > 0 && due.is_none() {
                due = Some(Instant::now() + self.settings.delay);
            }
            let is_due = due.is_some_and(|due| due <= Instant::now());
            if batch.len() >= self.settings.batch || batch.content_len >= BATCH_CONTENT || is_due {
                self.send_batch(std::mem::take(&mut batch), &stop).await;
                due = None;
            }
            if metrics_due <= Instant::now() {
                self.send_metrics(&stop).await;
                metrics_due = Instant::now() + self.settings.metrics_interval;
            }
        }
        // The end: what is in the queue, then the last sums.
        loop {
            let room = self.room(&batch);
            while signals.len() < room
                && let Ok(signal) = queue.try_recv()
            {
                signals.push(signal);
            }
            self.take(&mut signals, &mut batch);
            if batch.len() == 0 {
                break;
            }
            self.send_batch(std::mem::take(&mut batch), &stop).await;
        }
        self.send_metrics(&stop).await;
    }

    /// Returns how many signals are taken for a batch at once: with content, few, so that a request does not become too large.
    fn room(&self, batch: &SignalBatch) -> usize {
        let room = self.settings.batch - batch.len();
        if batch.content_len > 0 || self.queued_content.load(Ordering::Relaxed) > 0 {
            room.min(8)
        } else {
            room
        }
    }

    /// Encodes spans that are sampled, and log records.
    fn take(&mut self, signals: &mut Vec<QueuedSignal>, batch: &mut SignalBatch) {
        for signal in signals.drain(..) {
            match signal {
                QueuedSignal::Span(span) => {
                    let content_len = span.call_content_len();
                    self.queued_content.fetch_sub(content_len, Ordering::Relaxed);
                    batch.content_len += content_len;
                    if self.settings.traces.is_some()
                        && span.trace_id.is_sampled(self.settings.sampled)
                    {
                        batch.spans.push(self.encoder.encode(&span));
                    } else {
                        self.counts.left_out.fetch_add(1, Ordering::Relaxed);
                    }
                }
                QueuedSignal::Log(record) if self.settings.logs.is_some() => {
                    batch.logs.push(self.encode_log(record));
                }
                QueuedSignal::Log(_) => {
                    self.counts.left_out.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn encode_log(&self, record: SessionLogRecord) -> LogRecord {
        let (number, name, event_name) = match record.severity {
            LogSeverity::Warning => (13, "WARN", "crow.session.warning"),
            LogSeverity::Error => (17, "ERROR", "crow.session.error"),
        };
        let text = match self.encoder.content {
            ContentCapture::Captured => record.text,
            ContentCapture::LeftOut => event_name.to_owned(),
        };
        LogRecord {
            time_unix_nano: unix_nano(record.time),
            severity_number: number,
            severity_text: name.to_owned(),
            body: Some(AttributeValue { value: Some(Scalar::Text(text)) }),
            attributes: vec![attribute("gen_ai.conversation.id", record.session_id.as_str())],
            trace_id: record.trace_id.map(|id| id.to_bytes().to_vec()).unwrap_or_default(),
            span_id: Vec::new(),
            observed_time_unix_nano: unix_nano(record.time),
            event_name: event_name.to_owned(),
        }
    }

    async fn send_batch(&mut self, batch: SignalBatch, stop: &CancellationToken) {
        if !batch.spans.is_empty() {
            self.send_spans(batch.spans, stop).await;
        }
        if !batch.logs.is_empty() {
            self.send_logs(batch.logs, stop).await;
        }
    }

    async fn send_logs(&mut self, log_records: Vec<LogRecord>, stop: &CancellationToken) {
        let Some(endpoint) = self.settings.logs.clone() else { return };
        let count = log_records.len() as u64;
        let scope_logs = ScopeLogs { scope: Some(self.scope.clone()), log_records };
        let request = LogsRequest {
            resource_logs: vec![ResourceLogs {
                resource: Some(self.resource.clone()),
                scope_logs: vec![scope_logs],
            }],
        };
        if self.send(SentSignal::Logs, &endpoint, request.encode_to_vec(), stop).await {
            self.counts.sent.fetch_add(count, Ordering::Relaxed);
        }
    }

    async fn send_spans(&mut self, spans: Vec<OtelSpan>, stop: &CancellationToken) {
        let Some(endpoint) = self.settings.traces.clone() else { return };
        let count = spans.len() as u64;
        let request = TraceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![ScopeSpans {
                    scope: Some(self.scope.clone()),
                    spans,
                    schema_url: String::new(),
                }],
            }],
        };
        if self.send(SentSignal::Traces, &endpoint, request.encode_to_vec(), stop).await {
            self.counts.sent.fetch_add(count, Ordering::Relaxed);
        }
    }

    async fn send_metrics(&mut self, stop: &CancellationToken) {
        let Some(endpoint) = self.settings.metrics.clone() else { return };
        let metrics = lock(&self.metrics).encode(Timestamp::now());
        if metrics.is_empty() {
            return;
        }
        let request = MetricsRequest {
            resource_metrics: vec![ResourceMetrics {
                resource: Some(self.resource.clone()),
                scope_metrics: vec![ScopeMetrics {
                    scope: Some(self.scope.clone()),
                    metrics,
                    schema_url: String::new(),
                }],
            }],
        };
        self.send(SentSignal::Metrics, &endpoint, request.encode_to_vec(), stop).await;
    }

    /// Sends a body, with a few attempts; with one once it must stop. Returns true if it was taken.
    async fn send(
        &mut self,
        signal: SentSignal,
        endpoint: &OtelEndpoint,
        body: Vec<u8>,
        stop: &CancellationToken,
    ) -> bool {
        let mut wait = BACKOFF;
        for attempt in 1..=ATTEMPTS {
            match self.attempt(signal, endpoint, body.clone()).await {
                Ok(()) => return true,
                Err(SendFailure::Final(reason)) => {
                    tracing::warn!(reason, "the collector refuses telemetry");
                    return false;
                }
                Err(SendFailure::Transient(reason)) => {
                    tracing::debug!(reason, attempt, "the collector does not take telemetry");
                    if stop.is_cancelled() || attempt == ATTEMPTS {
                        return false;
                    }
                }
            }
            // An end of the program is not waited out.
            stop.run_until_cancelled(tokio::time::sleep(wait)).await;
            wait *= 2;
        }
        false
    }

    async fn attempt(
        &mut self,
        signal: SentSignal,
        endpoint: &OtelEndpoint,
        body: Vec<u8>,
    ) -> Result<(), SendFailure> {
        let timeout = self.settings.timeout;
        let attempt = async {
            match (endpoint.protocol, signal) {
                (OtlpProtocol::HttpProtobuf, _) => self.post(endpoint, body).await,
                #[cfg(feature = "grpc")]
                (OtlpProtocol::Grpc, signal) => {
                    self.grpc.call(endpoint, signal.grpc_method(), body, timeout).await
                }
            }
        };
        tokio::time::timeout(timeout, attempt)
            .await
            .unwrap_or_else(|_| Err(SendFailure::Transient("timed out".to_owned())))
    }

    async fn post(&self, endpoint: &OtelEndpoint, body: Vec<u8>) -> Result<(), SendFailure> {
        let mut headers = endpoint.headers.clone();
        headers.push(("content-type".to_owned(), "application/x-protobuf".to_owned()));
        let request = HttpRequest {
            method: HttpMethod::Post,
            url: endpoint.url.clone(),
            headers,
            body,
            reach: HttpReach::Any,
        };
        let sent = self.http.send(request).await;
        let mut response = sent.map_err(|error| SendFailure::Transient(error.to_string()))?;
        // The body is read so that the connection can be used again.
        while let Some(Ok(_)) = response.body.next().await {}
        let status = response.status;
        match status {
            200..=299 => Ok(()),
            429 | 502 | 503 | 504 => Err(SendFailure::Transient(format!("status {status}"))),
            _ => Err(SendFailure::Final(format!("status {status}"))),
        }
    }
}

fn lock(metrics: &Mutex<MetricSums>) -> MutexGuard<'_, MetricSums> {
    metrics.lock().unwrap_or_else(PoisonError::into_inner)
}
