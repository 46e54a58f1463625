//! Telemetry received by a collector, and its checks.

use std::{collections::BTreeMap, fmt};

use opentelemetry_proto::tonic::{
    collector::{
        logs::v1::ExportLogsServiceRequest, metrics::v1::ExportMetricsServiceRequest,
        trace::v1::ExportTraceServiceRequest,
    },
    common::v1::{InstrumentationScope, any_value::Value},
    logs::v1::LogRecord,
    metrics::v1::Metric,
    resource::v1::Resource,
};
use prost::Message as _;

use super::{
    attributes::{check_attributes, type_of, value},
    conventions::RESOURCE,
    metric_check::check_metrics,
    received_span::ReceivedSpan,
    span_check::check_spans,
};

/// The spans, metrics and log records that a collector received.
#[derive(Debug, Default)]
pub struct TelemetryRecord {
    spans: Vec<ReceivedSpan>,
    /// The last metrics of each process: they are sums since its start.
    metrics: BTreeMap<(String, i64), Vec<Metric>>,
    logs: Vec<LogRecord>,
    /// Decoding errors, wrong resources and refused requests.
    unreadable: Vec<String>,
    allows_content: bool,
}

/// What is wrong with what a collector received.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct TelemetryViolations(pub Vec<String>);

impl fmt::Display for TelemetryViolations {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the collector saw {} violation(s)", self.0.len())?;
        for violation in &self.0 {
            write!(formatter, "\n  {violation}")?;
        }
        Ok(())
    }
}

impl TelemetryRecord {
    /// Makes an empty record that permits no words of users, models or tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Permits words of users, models and tools.
    pub fn allow_content(&mut self) {
        self.allows_content = true;
    }

    /// Takes the body of a request to one of the paths of OTLP over HTTP. Returns false if there is no such path.
    pub fn receive(&mut self, path: &str, body: &[u8]) -> bool {
        let result = match path {
            "/v1/traces" => self.receive_traces(body),
            "/v1/metrics" => self.receive_metrics(body),
            "/v1/logs" => self.receive_logs(body),
            _ => return false,
        };
        if let Err(error) = result {
            self.unreadable.push(format!("{path}: {error}"));
        }
        true
    }

    /// Notes a request that a collector refuses.
    pub(super) fn refuse(&mut self, violation: String) {
        self.unreadable.push(violation);
    }

    fn receive_traces(&mut self, body: &[u8]) -> Result<(), prost::DecodeError> {
        for sent in ExportTraceServiceRequest::decode(body)?.resource_spans {
            let process = self.check_resource(sent.resource.as_ref());
            for scope in sent.scope_spans {
                self.check_scope(scope.scope.as_ref());
                for span in scope.spans {
                    // A request whose answer was lost is sent again.
                    if !self.spans.iter().any(|known| known.span == span) {
                        self.spans.push(ReceivedSpan { process: process.clone(), span });
                    }
                }
            }
            // The sums that fit these spans follow them.
            self.metrics.remove(&process);
        }
        Ok(())
    }

    fn receive_metrics(&mut self, body: &[u8]) -> Result<(), prost::DecodeError> {
        for sent in ExportMetricsServiceRequest::decode(body)?.resource_metrics {
            let process = self.check_resource(sent.resource.as_ref());
            for scope in &sent.scope_metrics {
                self.check_scope(scope.scope.as_ref());
            }
            let metrics = sent.scope_metrics.into_iter().flat_map(|scope| scope.metrics);
            self.metrics.insert(process, metrics.collect());
        }
        Ok(())
    }

    fn receive_logs(&mut self, body: &[u8]) -> Result<(), prost::DecodeError> {
        for sent in ExportLogsServiceRequest::decode(body)?.resource_logs {
            self.check_resource(sent.resource.as_ref());
            for scope in sent.scope_logs {
                self.check_scope(scope.scope.as_ref());
                self.logs.extend(scope.log_records);
            }
        }
        Ok(())
    }

    /// Checks the attributes of a resource, and returns its instance and the id of its process.
    fn check_resource(&mut self, resource: Option<&Resource>) -> (String, i64) {
        let attributes = resource.map(|resource| &resource.attributes[..]).unwrap_or_default();
        for (key, value_type) in RESOURCE {
            match value(attributes, key) {
                Some(value) if type_of(value) == Some(value_type) => {}
                other => self.unreadable.push(format!("resource: {key} is {other:?}")),
            }
        }
        let instance = match value(attributes, "service.instance.id") {
            Some(Value::StringValue(instance)) => instance.clone(),
            _ => String::new(),
        };
        let pid = match value(attributes, "process.pid") {
            Some(Value::IntValue(pid)) => *pid,
            _ => 0,
        };
        (instance, pid)
    }

    fn check_scope(&mut self, scope: Option<&InstrumentationScope>) {
        if scope.is_none_or(|scope| scope.name.is_empty() || scope.version.is_empty()) {
            self.unreadable.push(format!("the scope has no name or version: {scope:?}"));
        }
    }

    /// Returns the spans in the order of their arrival.
    pub fn spans(&self) -> &[ReceivedSpan] {
        &self.spans
    }

    /// Returns the metrics of all processes that were sent last.
    pub fn metrics(&self) -> impl Iterator<Item = &Metric> {
        self.metrics.values().flatten()
    }

    /// Returns the log records in the order of their arrival.
    pub fn logs(&self) -> &[LogRecord] {
        &self.logs
    }

    /// Holds all that was received against the conventions.
    ///
    /// # Errors
    /// Fails with all that is wrong.
    pub fn check(&self) -> Result<(), TelemetryViolations> {
        let mut violations = self.unreadable.clone();
        check_spans(&self.spans, self.allows_content, &mut violations);
        for (process, metrics) in &self.metrics {
            let spans: Vec<_> = self.spans.iter().filter(|span| span.process == *process).collect();
            check_metrics(metrics, &spans, &mut violations);
        }
        for record in &self.logs {
            self.check_log(record, &mut violations);
        }
        if violations.is_empty() { Ok(()) } else { Err(TelemetryViolations(violations)) }
    }

    fn check_log(&self, record: &LogRecord, out: &mut Vec<String>) {
        let name = record.event_name.as_str();
        if ![13, 17].contains(&record.severity_number) || record.time_unix_nano == 0 {
            out.push(format!("{name}: severity or time: {record:?}"));
        }
        if ![0, 16].contains(&record.trace_id.len()) {
            out.push(format!("{name}: trace id of {} bytes", record.trace_id.len()));
        }
        if value(&record.attributes, "gen_ai.conversation.id").is_none() {
            out.push(format!("{name}: no gen_ai.conversation.id"));
        }
        let body = record.body.as_ref().and_then(|body| body.value.as_ref());
        if !self.allows_content && body != Some(&Value::StringValue(name.to_owned())) {
            out.push(format!("{name}: the body has content: {body:?}"));
        }
        check_attributes(name, &record.attributes, self.allows_content, out);
    }
}
