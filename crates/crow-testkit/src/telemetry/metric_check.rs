//! The rules of metrics: each by itself, and beside the spans.

use opentelemetry_proto::tonic::{
    common::v1::KeyValue,
    metrics::v1::{
        HistogramDataPoint, Metric, NumberDataPoint, metric::Data,
        number_data_point::Value as Number,
    },
};

use super::{
    attributes::{check_attributes, value},
    conventions::{Instrument, MetricRule, metric_rule},
    received_span::ReceivedSpan,
};

/// Sums since the start of the process, in the messages of metrics.
const CUMULATIVE: i32 = 2;

/// Checks the metrics of a process.
pub(super) fn check_metrics(metrics: &[Metric], spans: &[&ReceivedSpan], out: &mut Vec<String>) {
    for (index, metric) in metrics.iter().enumerate() {
        let name = metric.name.as_str();
        if metrics[..index].iter().any(|other| other.name == name) {
            out.push(format!("{name}: twice in one request"));
        }
        let Some(rule) = metric_rule(name) else {
            out.push(format!("{name} is no metric of the conventions"));
            continue;
        };
        if metric.unit != rule.unit {
            out.push(format!("{name}: its unit is {}, not {}", metric.unit, rule.unit));
        }
        check_data(metric, rule, out);
    }
    check_call_count(metrics, spans, out);
}

fn check_data(metric: &Metric, rule: &MetricRule, out: &mut Vec<String>) {
    let name = metric.name.as_str();
    match (&metric.data, rule.instrument) {
        (Some(Data::Sum(sum)), Instrument::Counter) => {
            if !sum.is_monotonic || sum.aggregation_temporality != CUMULATIVE {
                out.push(format!("{name}: must be monotonic and cumulative"));
            }
            for point in &sum.data_points {
                check_number(name, point, out);
                check_point(name, &point.attributes, rule, out);
            }
        }
        (Some(Data::Histogram(histogram)), Instrument::Histogram) => {
            if histogram.aggregation_temporality != CUMULATIVE {
                out.push(format!("{name}: must be cumulative"));
            }
            for point in &histogram.data_points {
                check_histogram(name, point, out);
                check_point(name, &point.attributes, rule, out);
            }
        }
        (data, instrument) => out.push(format!("{name}: {data:?} is no {instrument:?}")),
    }
}

fn check_number(name: &str, point: &NumberDataPoint, out: &mut Vec<String>) {
    let is_count = matches!(point.value, Some(Number::AsInt(0..)));
    if !is_count || !is_interval(point.start_time_unix_nano, point.time_unix_nano) {
        out.push(format!("{name}: {point:?}"));
    }
}

fn check_histogram(name: &str, point: &HistogramDataPoint, out: &mut Vec<String>) {
    let has_buckets = point.bucket_counts.len() == point.explicit_bounds.len() + 1;
    let is_sorted = point.explicit_bounds.is_sorted_by(|bound, next| bound < next);
    let adds_up = point.bucket_counts.iter().sum::<u64>() == point.count && point.count > 0;
    let has_range = match (point.min, point.max, point.sum) {
        (Some(min), Some(max), Some(sum)) => 0.0 <= min && min <= max && max <= sum,
        _ => false,
    };
    let has_times = is_interval(point.start_time_unix_nano, point.time_unix_nano);
    if !(has_buckets && is_sorted && adds_up && has_range && has_times) {
        out.push(format!("{name}: {point:?}"));
    }
}

fn is_interval(start: u64, end: u64) -> bool {
    0 < start && start <= end
}

fn check_point(name: &str, attributes: &[KeyValue], rule: &MetricRule, out: &mut Vec<String>) {
    for key in rule.required {
        if value(attributes, key).is_none() {
            out.push(format!("{name}: no {key}"));
        }
    }
    check_attributes(name, attributes, false, out);
}

/// Checks that as many model calls were measured as there are spans of them.
fn check_call_count(metrics: &[Metric], spans: &[&ReceivedSpan], out: &mut Vec<String>) {
    let is_call = |span: &&&ReceivedSpan| span.text("gen_ai.operation.name") == Some("chat");
    let calls = spans.iter().filter(is_call).count();
    let names = ["gen_ai.client.operation.duration", "gen_ai.client.inference.duration"];
    let mut measured = 0;
    for metric in metrics.iter().filter(|metric| names.contains(&metric.name.as_str())) {
        if let Some(Data::Histogram(histogram)) = &metric.data {
            measured += histogram.data_points.iter().map(|point| point.count).sum::<u64>();
        }
    }
    if measured != calls as u64 {
        out.push(format!("{measured} model calls were measured, {calls} were sent as spans"));
    }
}
