//! Measures what telemetry costs a run of 300 steps, beside what the log costs it: the same events as JSON.
//!
//! `cargo bench -p crow-telemetry --bench telemetry` prints microseconds per step, the median of several rounds. The
//! collector takes requests and never answers.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark reads the clock, prints, and fails loudly"
)]

use std::{
    collections::BTreeMap,
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use crow_core::{
    capability::{Http, HttpError, HttpRequest, HttpResponse},
    event::Envelope,
    ids::SessionId,
    tool::ToolResult,
};
use crow_telemetry::{
    SpanStore, TelemetryFeed,
    otel::{ContentCapture, OtelExporter, OtelSettings, SpanEncoder},
    report::SessionReport,
};
use crow_testkit::sample::{ROOT, Story};
use jiff::tz::TimeZone;

const ROUNDS: usize = 21;
const STEPS: u32 = 300;

/// A collector that takes requests and never answers.
#[derive(Debug)]
struct HangingCollector;

#[async_trait]
impl Http for HangingCollector {
    async fn send(&self, _: HttpRequest) -> Result<HttpResponse, HttpError> {
        std::future::pending().await
    }
}

/// A run of steps with a command each.
fn run(steps: u32) -> Vec<Envelope> {
    let mut story = Story::run();
    let output = "warning: unused variable\n".repeat(40);
    for step in 0..steps {
        let id = format!("c{step}");
        story.reply("", "I run the tests once more.", &[(&id, "bash")]);
        story.call(&id, "bash", "cargo test", ToolResult::success(output.clone())).next_reply();
    }
    story.answer("All is well.");
    story.events
}

fn main() {
    let events = run(STEPS);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let _entered = runtime.enter();
    let settings = OtelSettings::from_variables(|name| {
        (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "http://127.0.0.1:4318".to_owned())
    });
    let program = ("bench", "0.0.0", "bench");
    let http = Arc::new(HangingCollector);
    let exporter =
        OtelExporter::start(settings.unwrap().unwrap(), SpanEncoder::default(), program, http);
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SpanStore::new(folder.path(), ContentCapture::LeftOut));
    let json = median(|| {
        for event in &events {
            black_box(serde_json::to_vec(event).unwrap());
        }
    });
    let fold = median(|| {
        let mut feed = TelemetryFeed::new();
        for event in &events {
            feed.on_event(event);
        }
        feed.finish();
    });
    let all = median(|| {
        let consumer = exporter.consumer();
        let mut feed = TelemetryFeed::new()
            .with_internal(Arc::clone(&store).consumer())
            .with_internal(consumer.clone())
            .with_acp(consumer);
        for event in &events {
            feed.on_event(event);
        }
        feed.finish();
    });
    let per_step = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(STEPS);
    println!("events of a step as JSON, as the log has them: {:.1} µs", per_step(json));
    println!("spans alone: {:.1} µs", per_step(fold));
    println!("spans, stored and queued for a collector that hangs: {:.1} µs", per_step(all));
    let long = run(1_000);
    let report = median(|| {
        black_box(report(&long));
    });
    println!(
        "report of 1,000 steps: {:.0} ms, {} kB",
        report.as_secs_f64() * 1e3,
        self::report(&long).len() / 1000
    );
    assert!(report < Duration::from_secs(1), "a report takes more than a second");
}

fn report(events: &[Envelope]) -> String {
    SessionReport {
        session_id: &SessionId::new(ROOT),
        title: "bench",
        cwd: "/p",
        model: "a/b",
        events,
        prices: &BTreeMap::new(),
        zone: TimeZone::UTC,
        version: "0.0.0",
    }
    .to_html()
}

fn median(mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            work();
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[ROUNDS / 2]
}
