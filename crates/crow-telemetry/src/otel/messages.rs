//! The messages of the OpenTelemetry protocol that are sent, by their field numbers.
//!
//! A part of opentelemetry-proto 1.x. The crate with all of it brings the SDK along; tests decode what is sent with that
//! crate.

use prost::{Message, Oneof};

/// The body of a request with spans.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TraceRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) spans: Vec<OtelSpan>,
    #[prost(string, tag = "3")]
    pub(crate) schema_url: String,
}

/// What produces telemetry: the program.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(crate) attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Scope {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OtelSpan {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(crate) name: String,
    #[prost(enumeration = "OtelSpanKind", tag = "6")]
    pub(crate) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(crate) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub(crate) end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub(crate) attributes: Vec<Attribute>,
    #[prost(message, optional, tag = "15")]
    pub(crate) status: Option<OtelStatus>,
    #[prost(fixed32, tag = "16")]
    pub(crate) flags: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum OtelSpanKind {
    Unspecified = 0,
    Internal = 1,
    Client = 3,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OtelStatus {
    #[prost(string, tag = "2")]
    pub(crate) message: String,
    /// 0 unset, 1 ok, 2 error.
    #[prost(int32, tag = "3")]
    pub(crate) code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Attribute {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AttributeValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttributeValue {
    #[prost(oneof = "Scalar", tags = "1, 2, 3, 4, 5")]
    pub(crate) value: Option<Scalar>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Scalar {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Flag(bool),
    #[prost(int64, tag = "3")]
    Integer(i64),
    #[prost(double, tag = "4")]
    Float(f64),
    #[prost(message, tag = "5")]
    List(AttributeList),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttributeList {
    #[prost(message, repeated, tag = "1")]
    pub(crate) values: Vec<AttributeValue>,
}

/// The body of a request with metrics.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MetricsRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) metrics: Vec<Metric>,
    #[prost(string, tag = "3")]
    pub(crate) schema_url: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metric {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) description: String,
    #[prost(string, tag = "3")]
    pub(crate) unit: String,
    #[prost(oneof = "MetricData", tags = "7, 9")]
    pub(crate) data: Option<MetricData>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum MetricData {
    #[prost(message, tag = "7")]
    Sum(MetricSum),
    #[prost(message, tag = "9")]
    Histogram(MetricHistogram),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MetricSum {
    #[prost(message, repeated, tag = "1")]
    pub(crate) data_points: Vec<SumPoint>,
    #[prost(int32, tag = "2")]
    pub(crate) aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    pub(crate) is_monotonic: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SumPoint {
    #[prost(fixed64, tag = "2")]
    pub(crate) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    pub(crate) time_unix_nano: u64,
    /// Of a oneof with `double as_double = 4`, of which this is the only one that is used.
    #[prost(sfixed64, optional, tag = "6")]
    pub(crate) as_int: Option<i64>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MetricHistogram {
    #[prost(message, repeated, tag = "1")]
    pub(crate) data_points: Vec<HistogramPoint>,
    #[prost(int32, tag = "2")]
    pub(crate) aggregation_temporality: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HistogramPoint {
    #[prost(fixed64, tag = "2")]
    pub(crate) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    pub(crate) time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    pub(crate) count: u64,
    #[prost(double, optional, tag = "5")]
    pub(crate) sum: Option<f64>,
    #[prost(fixed64, repeated, tag = "6")]
    pub(crate) bucket_counts: Vec<u64>,
    #[prost(double, repeated, tag = "7")]
    pub(crate) explicit_bounds: Vec<f64>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) attributes: Vec<Attribute>,
    #[prost(double, optional, tag = "11")]
    pub(crate) min: Option<f64>,
    #[prost(double, optional, tag = "12")]
    pub(crate) max: Option<f64>,
}

/// The sum of all since the start of the program.
pub(crate) const CUMULATIVE: i32 = 2;

/// The body of a request with log records.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LogsRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_logs: Vec<ResourceLogs>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResourceLogs {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_logs: Vec<ScopeLogs>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScopeLogs {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) log_records: Vec<LogRecord>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LogRecord {
    #[prost(fixed64, tag = "1")]
    pub(crate) time_unix_nano: u64,
    /// 9 info, 13 warning, 17 error.
    #[prost(int32, tag = "2")]
    pub(crate) severity_number: i32,
    #[prost(string, tag = "3")]
    pub(crate) severity_text: String,
    #[prost(message, optional, tag = "5")]
    pub(crate) body: Option<AttributeValue>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) attributes: Vec<Attribute>,
    #[prost(bytes = "vec", tag = "9")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "10")]
    pub(crate) span_id: Vec<u8>,
    #[prost(fixed64, tag = "11")]
    pub(crate) observed_time_unix_nano: u64,
    #[prost(string, tag = "12")]
    pub(crate) event_name: String,
}

/// Makes an attribute.
pub(crate) fn attribute(key: &str, value: impl Into<Scalar>) -> Attribute {
    let value = Some(AttributeValue { value: Some(value.into()) });
    Attribute { key: key.to_owned(), value }
}

impl From<&str> for Scalar {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Scalar {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Scalar {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<u64> for Scalar {
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Scalar {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<f64> for Scalar {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<Vec<String>> for Scalar {
    fn from(texts: Vec<String>) -> Self {
        let values = texts.into_iter().map(|text| AttributeValue { value: Some(Self::Text(text)) });
        Self::List(AttributeList { values: values.collect() })
    }
}
