//! Tests of the exporter: what it sends is decoded by the messages of opentelemetry-proto, and held against the conventions
//! by the test kit.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use crow_core::{
    capability::{Http, HttpError, HttpRequest, HttpResponse},
    model::{ModelRef, Price},
};
use crow_testkit::{
    sample::{Story, bad_run, good_run, reviewed_run},
    telemetry::TelemetryRecord,
};
use opentelemetry_proto::tonic::{
    collector::{
        logs::v1::ExportLogsServiceRequest, metrics::v1::ExportMetricsServiceRequest,
        trace::v1::ExportTraceServiceRequest,
    },
    common::v1::{KeyValue, any_value::Value},
    metrics::v1::{Metric, NumberDataPoint, metric::Data, number_data_point::Value as NumberValue},
    trace::v1::{Span, span::SpanKind},
};
use prost::Message as _;

use super::*;
use crate::TelemetryFeed;

/// How the collector answers.
#[derive(Debug, Clone, Copy)]
enum Answer {
    Status(u16),
    /// It takes the request and says nothing.
    Hang,
    Refuse,
}

/// A collector that keeps what it is sent.
#[derive(Debug)]
struct Collector {
    answer: Answer,
    requests: Mutex<Vec<HttpRequest>>,
}

impl Collector {
    fn new(answer: Answer) -> Arc<Self> {
        Arc::new(Self { answer, requests: Mutex::default() })
    }

    fn bodies(&self, path: &str) -> Vec<Vec<u8>> {
        let requests = self.requests.lock().unwrap();
        let wanted = requests.iter().filter(|request| request.url.ends_with(path));
        wanted.map(|request| request.body.clone()).collect()
    }

    fn spans(&self) -> Vec<Span> {
        let decode = |body: Vec<u8>| ExportTraceServiceRequest::decode(&body[..]).unwrap();
        let resources =
            self.bodies("/v1/traces").into_iter().flat_map(|body| decode(body).resource_spans);
        resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
    }
}

#[async_trait]
impl Http for Collector {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.requests.lock().unwrap().push(request);
        match self.answer {
            Answer::Status(status) => Ok(HttpResponse {
                status,
                headers: Vec::new(),
                body: Box::pin(futures_util::stream::empty()),
            }),
            Answer::Hang => std::future::pending().await,
            Answer::Refuse => Err(HttpError::Connect("refused".to_owned())),
        }
    }
}

fn settings(more: &[(&str, &str)]) -> OtelSettings {
    let variable = |name: &str| {
        let given = more.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        given.or_else(|| {
            (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "http://127.0.0.1:4318".to_owned())
        })
    };
    OtelSettings::from_variables(variable).unwrap().unwrap()
}

/// The price of the model of the stories.
fn prices() -> PriceTable {
    let model = ModelRef { provider: "anthropic".into(), model: "claude-sonnet-4-5".into() };
    let price =
        Price { input: 2.0, output: 10.0, cache_read: 0.2, cache_write: 2.5, cache_write_1h: 4.0 };
    let prices = PriceTable::new();
    prices.set(model, Some(price));
    prices
}

/// Exports the events of stories to a collector, and returns what the exporter says.
async fn export(
    settings: OtelSettings,
    collector: &Arc<Collector>,
    stories: &[Story],
    patience: Duration,
) -> OtelReport {
    let encoder = SpanEncoder {
        conventions: settings.conventions,
        content: settings.content,
        prices: prices(),
    };
    let program = ("crow-agent", "0.0.0", "instance");
    let exporter = OtelExporter::start(settings, encoder, program, Arc::clone(collector) as _);
    for story in stories {
        let consumer = exporter.consumer();
        // The spans have the content of calls: whether it is sent is up to the encoder.
        let mut feed =
            TelemetryFeed::new().with_content().with_internal(consumer.clone()).with_acp(consumer);
        for event in &story.events {
            feed.on_event(event);
        }
        feed.finish();
    }
    exporter.shut_down(patience).await
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.clone()?.value? {
        Value::StringValue(text) => Some(text),
        other => Some(format!("{other:?}")),
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_run_is_sent_as_spans_of_one_trace_with_the_names_of_the_conventions() {
    let collector = Collector::new(Answer::Status(200));
    let report = export(settings(&[]), &collector, &[reviewed_run()], PATIENCE).await;
    let spans = collector.spans();
    assert_eq!((report.sent, report.dropped), (spans.len() as u64, 0));
    let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let run = named("invoke_workflow builder");
    assert!(run.parent_span_id.is_empty() && run.kind == SpanKind::Internal as i32);
    let turn = named("invoke_agent builder");
    assert_eq!(turn.parent_span_id, run.span_id);
    let chat = named("chat claude-sonnet-4-5");
    assert_eq!((chat.kind, &chat.parent_span_id), (SpanKind::Client as i32, &turn.span_id));
    assert_eq!(text(&chat.attributes, "gen_ai.provider.name").as_deref(), Some("anthropic"));
    assert_eq!(text(&chat.attributes, "server.address").as_deref(), Some("example.test"));
    for span in [run, chat] {
        assert!(text(&span.attributes, "crow.cost.usd").is_some(), "{}", span.name);
    }
    let tool = named("execute_tool submit_for_review");
    assert_eq!(text(&tool.attributes, "gen_ai.operation.name").as_deref(), Some("execute_tool"));
    assert!(spans.iter().all(|span| span.trace_id == run.trace_id && span.trace_id.len() == 16));
    assert!(spans.iter().all(|span| span.start_time_unix_nano <= span.end_time_unix_nano));
    let known: BTreeSet<_> = spans.iter().map(|span| span.span_id.clone()).collect();
    assert!(spans.iter().all(|s| s.parent_span_id.is_empty() || known.contains(&s.parent_span_id)));
}

#[tokio::test]
async fn what_is_sent_is_by_the_conventions_with_all_settings() {
    let latest = ("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental");
    let content = ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
    let mut logs = 0;
    for variables in [&[][..], &[latest], &[content], &[latest, content]] {
        // The ids of the stories are the same.
        for story in [good_run(), bad_run(), reviewed_run()] {
            let collector = Collector::new(Answer::Status(200));
            export(settings(variables), &collector, &[story], PATIENCE).await;
            let mut record = TelemetryRecord::new();
            if variables.contains(&content) {
                record.allow_content();
            }
            for path in ["/v1/traces", "/v1/metrics", "/v1/logs"] {
                for body in collector.bodies(path) {
                    assert!(record.receive(path, &body));
                }
            }
            assert!(!record.spans().is_empty() && record.metrics().count() > 0);
            logs += record.logs().len();
            record.check().unwrap_or_else(|violations| panic!("{variables:?}: {violations}"));
        }
    }
    assert!(logs > 0);
}

#[tokio::test]
async fn messages_of_model_calls_and_answers_of_tools_are_sent_if_content_is_asked_for() {
    let collector = Collector::new(Answer::Status(200));
    let capture = [("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")];
    export(settings(&capture), &collector, &[good_run()], PATIENCE).await;
    let spans = collector.spans();
    let messages = |span: &Span, key: &str| -> Vec<serde_json::Value> {
        serde_json::from_str(&text(&span.attributes, key).unwrap()).unwrap()
    };
    let mut calls: Vec<&Span> =
        spans.iter().filter(|span| span.name.starts_with("chat ")).collect();
    calls.sort_by_key(|span| span.start_time_unix_nano);
    let first = messages(calls[0], "gen_ai.input.messages");
    assert_eq!(first[0]["role"], "user");
    assert!(first[0].to_string().contains("Fix the greeting"), "{first:?}");
    let output = messages(calls[0], "gen_ai.output.messages");
    let is_call = |part: &serde_json::Value| part["type"] == "tool_call";
    assert!(output[0]["parts"].as_array().unwrap().iter().any(is_call), "{output:?}");
    // The next call was sent the answer of the tool, and nothing a second time.
    let second = messages(calls[1], "gen_ai.input.messages");
    assert!(second.iter().all(|message| message["role"] == "tool"), "{second:?}");
    assert_eq!(second[0]["parts"][0]["type"], "tool_call_response");
    let tool = spans.iter().find(|span| span.name == "execute_tool bash").unwrap();
    let arguments = text(&tool.attributes, "gen_ai.tool.call.arguments").unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(&arguments).is_ok(), "{arguments}");
    assert!(text(&tool.attributes, "gen_ai.tool.call.result").is_some());
}

#[tokio::test]
async fn content_is_sent_only_if_it_is_asked_for() {
    let stories = [good_run(), bad_run()];
    let words = ["Fix the greeting", "cargo nextest", "no such file", "try later"];
    for (more, is_sent) in [
        (&[][..], false),
        (&[("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")][..], true),
    ] {
        let collector = Collector::new(Answer::Status(200));
        export(settings(more), &collector, &stories, PATIENCE).await;
        let bodies =
            [collector.bodies("/v1/traces"), collector.bodies("/v1/logs")].concat().concat();
        let sent = String::from_utf8_lossy(&bodies);
        for word in words {
            assert_eq!(sent.contains(word), is_sent, "{word}");
        }
    }
}

/// Returns the metrics that were sent last.
fn last_metrics(collector: &Collector) -> Vec<Metric> {
    let body = collector.bodies("/v1/metrics").pop().unwrap();
    let mut request = ExportMetricsServiceRequest::decode(&body[..]).unwrap();
    request.resource_metrics.remove(0).scope_metrics.remove(0).metrics
}

#[tokio::test]
async fn metrics_of_model_calls_have_the_names_of_1_41_unless_the_latest_are_asked_for() {
    let collector = Collector::new(Answer::Status(200));
    export(settings(&[]), &collector, &[good_run()], PATIENCE).await;
    let metrics = last_metrics(&collector);
    let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
    for name in ["gen_ai.client.token.usage", "gen_ai.client.operation.duration"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert!(!names.iter().any(|name| name.starts_with("gen_ai.client.inference")), "{names:?}");
    let tokens = metrics.iter().find(|metric| metric.name == "gen_ai.client.token.usage").unwrap();
    let Some(Data::Histogram(tokens)) = &tokens.data else { panic!("a histogram") };
    let kinds: Vec<_> = tokens
        .data_points
        .iter()
        .map(|point| text(&point.attributes, "gen_ai.token.type"))
        .collect();
    assert!(
        kinds.contains(&Some("input".to_owned())) && kinds.contains(&Some("output".to_owned()))
    );
}

#[tokio::test]
async fn metrics_and_logs_are_sent_too() {
    let collector = Collector::new(Answer::Status(200));
    let latest = [("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental")];
    export(settings(&latest), &collector, &[good_run(), bad_run()], PATIENCE).await;
    let metrics = last_metrics(&collector);
    let metric = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap();
    let Some(Data::Sum(input)) = &metric("gen_ai.client.inference.usage.input_tokens").data else {
        panic!("a sum")
    };
    let is_of_model = |point: &&NumberDataPoint| {
        text(&point.attributes, "gen_ai.request.model").as_deref() == Some("claude-sonnet-4-5")
            && text(&point.attributes, "server.address").is_some()
    };
    let counted = input.data_points.iter().find(is_of_model).unwrap();
    assert_eq!(counted.value, Some(NumberValue::AsInt(24_000)));
    let Some(Data::Histogram(tools)) = &metric("gen_ai.execute_tool.duration").data else {
        panic!("a histogram")
    };
    for point in &tools.data_points {
        assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
    }
    let body = collector.bodies("/v1/logs").pop().unwrap();
    let request = ExportLogsServiceRequest::decode(&body[..]).unwrap();
    let records = &request.resource_logs[0].scope_logs[0].log_records;
    assert!(records.iter().any(|record| record.severity_number == 17));
    assert!(records.iter().all(|record| record.trace_id.len() == 16));
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_hangs_delays_nobody_and_costs_spans_only() {
    let collector = Collector::new(Answer::Hang);
    let small = settings(&[("OTEL_BSP_MAX_QUEUE_SIZE", "4")]);
    let stories = vec![good_run(); 50];
    let started = tokio::time::Instant::now();
    let report = export(small, &collector, &stories, Duration::from_secs(1)).await;
    assert!(started.elapsed() <= Duration::from_secs(1));
    assert_eq!(report.sent, 0);
    assert!(report.dropped > 100, "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_sent_three_times_and_then_dropped() {
    for (answer, requests) in
        [(Answer::Status(503), 3), (Answer::Refuse, 3), (Answer::Status(400), 1)]
    {
        let collector = Collector::new(answer);
        let settings =
            settings(&[("OTEL_METRICS_EXPORTER", "none"), ("OTEL_LOGS_EXPORTER", "none")]);
        let encoder = SpanEncoder::default();
        let program = ("crow-agent", "0.0.0", "instance");
        let exporter = OtelExporter::start(settings, encoder, program, Arc::clone(&collector) as _);
        let mut feed = TelemetryFeed::new().with_internal(exporter.consumer());
        good_run().events.iter().for_each(|event| feed.on_event(event));
        // The delay before a batch, and the waits between the attempts.
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(collector.bodies("/v1/traces").len(), requests, "{answer:?}");
        let report = exporter.shut_down(PATIENCE).await;
        assert!(report.sent == 0 && report.dropped > 0, "{report:?}");
    }
}

#[tokio::test]
async fn sampling_keeps_whole_traces() {
    for (ratio, is_sent) in [("0", false), ("1", true)] {
        let collector = Collector::new(Answer::Status(200));
        let variables =
            [("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", ratio)];
        export(settings(&variables), &collector, &[good_run()], PATIENCE).await;
        assert_eq!(!collector.spans().is_empty(), is_sent);
    }
}
