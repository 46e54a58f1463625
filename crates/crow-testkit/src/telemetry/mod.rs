//! A collector of telemetry that holds what it is sent against the conventions of OpenTelemetry.
//!
//! [`TelemetryCollector`] takes OTLP over HTTP on loopback; [`TelemetryRecord`] checks bodies without a server. Names and
//! types of attributes come from the crate `opentelemetry-semantic-conventions`, messages from `opentelemetry-proto`:
//! nothing here is shared with the exporter that is tested.

mod attributes;
mod collector;
mod conventions;
mod metric_check;
mod received_span;
mod record;
mod span_check;

pub use collector::TelemetryCollector;
pub use received_span::ReceivedSpan;
pub use record::{TelemetryRecord, TelemetryViolations};
