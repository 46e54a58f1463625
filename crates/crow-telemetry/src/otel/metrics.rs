//! Metrics by the conventions for generative AI, summed up from spans.

use std::collections::BTreeMap;

use crow_core::usage::TokenUsage;
use jiff::Timestamp;

use super::{
    GenAiConventions,
    conventions::{provider_name, server, unix_nano},
    messages::{
        CUMULATIVE, HistogramPoint, Metric, MetricData, MetricHistogram, MetricSum, SumPoint,
        attribute,
    },
};
use crate::{ModelCallWork, SpanOutcome, SpanWork, TraceSpan};

/// Bounds of durations in seconds.
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// Bounds of numbers of tokens.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
/// Maximum number of attribute sets of all metrics together: more are not counted.
const SETS: usize = 2_000;

/// A metric, and one set of its attributes.
type SeriesKey = (&'static str, Vec<SeriesAttribute>);
type SeriesAttribute = (&'static str, SeriesValue);

/// The value of an attribute of a metric.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum SeriesValue {
    Text(String),
    Integer(u64),
}

impl From<&str> for SeriesValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// Sums since the start of the program.
#[derive(Debug)]
pub(super) struct MetricSums {
    start: Timestamp,
    conventions: GenAiConventions,
    counters: BTreeMap<SeriesKey, u64>,
    histograms: BTreeMap<SeriesKey, HistogramSum>,
}

#[derive(Debug)]
struct HistogramSum {
    bounds: &'static [f64],
    buckets: Vec<u64>,
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
}

impl HistogramSum {
    fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            buckets: vec![0; bounds.len() + 1],
            count: 0,
            sum: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        }
    }

    fn record(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.buckets[bucket] += 1;
        self.count += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }
}

impl MetricSums {
    pub(super) fn new(start: Timestamp, conventions: GenAiConventions) -> Self {
        Self { start, conventions, counters: BTreeMap::new(), histograms: BTreeMap::new() }
    }

    /// Counts a span.
    pub(super) fn record(&mut self, span: &TraceSpan) {
        let seconds = span.duration().as_secs_f64();
        let error = match &span.outcome {
            SpanOutcome::Succeeded => None,
            SpanOutcome::Failed { kind, .. } => Some(kind.clone()),
            SpanOutcome::Cancelled => Some("cancelled".to_owned()),
            SpanOutcome::Unfinished => Some("unfinished".to_owned()),
        };
        let with_error = |mut attributes: Vec<SeriesAttribute>| {
            attributes.extend(error.as_deref().map(|error| ("error.type", error.into())));
            attributes
        };
        match &span.work {
            SpanWork::Run(run) => {
                let attributes =
                    with_error(vec![("gen_ai.workflow.name", span.agent.as_str().into())]);
                self.add("gen_ai.invoke_workflow.duration", &SECONDS, attributes, seconds);
                let result = vec![("crow.run.result", run.result.as_str().into())];
                self.count("crow.runs", result, 1);
            }
            SpanWork::Turn(turn) => {
                let attributes =
                    with_error(vec![("gen_ai.agent.name", span.agent.as_str().into())]);
                let calls = f64::from(turn.model_calls);
                let tools = f64::from(turn.tool_calls);
                self.add("gen_ai.invoke_agent.duration", &SECONDS, attributes.clone(), seconds);
                self.add("gen_ai.invoke_agent.inference_calls", &TOKENS, attributes.clone(), calls);
                self.add("gen_ai.invoke_agent.tool_calls", &TOKENS, attributes, tools);
            }
            SpanWork::ModelCall(call) => self.record_model_call(call, seconds, error.clone()),
            SpanWork::ToolCall(call) => {
                let attributes = with_error(vec![("gen_ai.tool.name", call.tool.as_str().into())]);
                self.add("gen_ai.execute_tool.duration", &SECONDS, attributes, seconds);
            }
            SpanWork::Permission(_)
            | SpanWork::Question(_)
            | SpanWork::Handoff(_)
            | SpanWork::Verdict(_)
            | SpanWork::Checks(_)
            | SpanWork::Compaction(_) => {}
        }
    }

    /// Counts a model call. The conventions renamed these metrics after 1.41; the others have no older names.
    fn record_model_call(&mut self, call: &ModelCallWork, seconds: f64, error: Option<String>) {
        let mut attributes = vec![
            ("gen_ai.operation.name", "chat".into()),
            ("gen_ai.provider.name", provider_name(&call.model.provider).into()),
            ("gen_ai.request.model", call.model.model.as_str().into()),
        ];
        if let Some((address, port)) = server(&call.base_url) {
            attributes.push(("server.address", SeriesValue::Text(address)));
            attributes.extend(port.map(|port| ("server.port", SeriesValue::Integer(port))));
        }
        let usage = call.usage.unwrap_or_default();
        let names = match self.conventions {
            GenAiConventions::V1_41 => {
                // Without counts the conventions want nothing to be reported.
                let counts = [("input", usage.input_tokens), ("output", usage.output_tokens)];
                for (kind, tokens) in counts.into_iter().filter(|_| call.usage.is_some()) {
                    let mut attributes = attributes.clone();
                    attributes.push(("gen_ai.token.type", kind.into()));
                    self.add("gen_ai.client.token.usage", &TOKENS, attributes, tokens_f64(tokens));
                }
                ("gen_ai.client.operation.duration", "gen_ai.client.operation.time_to_first_chunk")
            }
            GenAiConventions::Latest => {
                self.record_inference_tokens(&usage, &attributes, error.as_deref());
                ("gen_ai.client.inference.duration", "gen_ai.client.inference.time_to_first_chunk")
            }
        };
        if let Some(first) = call.first_chunk_ms {
            let first = std::time::Duration::from_millis(first).as_secs_f64();
            self.add(names.1, &SECONDS, attributes.clone(), first);
        }
        attributes.extend(error.map(|error| ("error.type", SeriesValue::Text(error))));
        self.add(names.0, &SECONDS, attributes, seconds);
    }

    fn record_inference_tokens(
        &mut self,
        usage: &TokenUsage,
        attributes: &[SeriesAttribute],
        error: Option<&str>,
    ) {
        let mut counted = attributes.to_vec();
        counted.push(("gen_ai.token.modality", "unknown".into()));
        let mut of_operation = attributes.to_vec();
        of_operation.extend(error.map(|error| ("error.type", error.into())));
        for (name, tokens) in [
            ("gen_ai.client.inference.usage.input_tokens", usage.input_tokens),
            ("gen_ai.client.inference.usage.output_tokens", usage.output_tokens),
            ("gen_ai.client.inference.usage.cache_read.input_tokens", usage.cache_read_tokens),
            ("gen_ai.client.inference.usage.cache_write.input_tokens", usage.cache_write_tokens),
            (
                "gen_ai.client.inference.usage.reasoning.output_tokens",
                usage.reasoning_tokens.unwrap_or(0),
            ),
        ] {
            self.count(name, counted.clone(), tokens);
        }
        for (name, tokens) in [
            ("gen_ai.client.inference.operation.input_tokens", usage.input_tokens),
            ("gen_ai.client.inference.operation.output_tokens", usage.output_tokens),
        ] {
            self.add(name, &TOKENS, of_operation.clone(), tokens_f64(tokens));
        }
    }

    fn count(&mut self, name: &'static str, attributes: Vec<SeriesAttribute>, add: u64) {
        let key = (name, attributes);
        if self.has_room(self.counters.contains_key(&key)) {
            let sum = self.counters.entry(key).or_default();
            *sum = sum.saturating_add(add);
        }
    }

    fn add(
        &mut self,
        name: &'static str,
        bounds: &'static [f64],
        attributes: Vec<SeriesAttribute>,
        value: f64,
    ) {
        let key = (name, attributes);
        if self.has_room(self.histograms.contains_key(&key)) {
            self.histograms.entry(key).or_insert_with(|| HistogramSum::new(bounds)).record(value);
        }
    }

    /// Returns true if a series is known, or may be added.
    fn has_room(&self, is_known: bool) -> bool {
        is_known || self.counters.len() + self.histograms.len() < SETS
    }

    /// Returns the metrics as they are sent.
    pub(super) fn encode(&self, now: Timestamp) -> Vec<Metric> {
        let times = (unix_nano(self.start), unix_nano(now));
        let mut metrics: Vec<Metric> = Vec::new();
        for ((name, attributes), value) in &self.counters {
            let point = SumPoint {
                start_time_unix_nano: times.0,
                time_unix_nano: times.1,
                as_int: Some(i64::try_from(*value).unwrap_or(i64::MAX)),
                attributes: encoded(attributes),
            };
            let unit = if *name == "crow.runs" { "{run}" } else { "{token}" };
            let metric = metric_of(&mut metrics, name, unit);
            match &mut metric.data {
                Some(MetricData::Sum(sum)) => sum.data_points.push(point),
                data => {
                    *data = Some(MetricData::Sum(MetricSum {
                        data_points: vec![point],
                        aggregation_temporality: CUMULATIVE,
                        is_monotonic: true,
                    }));
                }
            }
        }
        for ((name, attributes), sum) in &self.histograms {
            let point = HistogramPoint {
                start_time_unix_nano: times.0,
                time_unix_nano: times.1,
                count: sum.count,
                sum: Some(sum.sum),
                bucket_counts: sum.buckets.clone(),
                explicit_bounds: sum.bounds.to_vec(),
                attributes: encoded(attributes),
                min: Some(sum.min),
                max: Some(sum.max),
            };
            let unit = match *name {
                name if name.ends_with("tokens") || name == "gen_ai.client.token.usage" => {
                    "{token}"
                }
                name if name.ends_with("_calls") => "{call}",
                _ => "s",
            };
            let metric = metric_of(&mut metrics, name, unit);
            match &mut metric.data {
                Some(MetricData::Histogram(histogram)) => histogram.data_points.push(point),
                data => {
                    *data = Some(MetricData::Histogram(MetricHistogram {
                        data_points: vec![point],
                        aggregation_temporality: CUMULATIVE,
                    }));
                }
            }
        }
        metrics
    }
}

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
fn tokens_f64(tokens: u64) -> f64 {
    tokens as f64
}

/// Returns the metric with this name, which is the last one if there is one: series are sorted by name.
fn metric_of<'a>(metrics: &'a mut Vec<Metric>, name: &str, unit: &str) -> &'a mut Metric {
    if metrics.last().is_none_or(|last| last.name != name) {
        metrics.push(Metric {
            name: name.to_owned(),
            description: String::new(),
            unit: unit.to_owned(),
            data: None,
        });
    }
    metrics.last_mut().expect("invariant: one was pushed")
}

fn encoded(attributes: &[SeriesAttribute]) -> Vec<super::messages::Attribute> {
    let encode = |(key, value): &SeriesAttribute| match value {
        SeriesValue::Text(text) => attribute(key, text.as_str()),
        SeriesValue::Integer(number) => attribute(key, *number),
    };
    attributes.iter().map(encode).collect()
}
