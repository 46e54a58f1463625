//! A collector of telemetry that holds what it is sent against the conventions of OpenTelemetry.
//!
//! [`TelemetryCollector`] takes OTLP over HTTP on loopback, from programs; [`StoreTelemetryCheck`] exports the sessions of an
//! agent in the test's own process; [`TelemetryRecord`] checks bodies without a server. Names and
//! types of attributes come from the crate `opentelemetry-semantic-conventions`, messages from `opentelemetry-proto`:
//! the rules share nothing with the exporter that is tested.

mod attributes;
mod collector;
mod conventions;
mod metric_check;
mod received_span;
mod record;
mod span_check;
mod stored_session;

pub use collector::TelemetryCollector;
pub use received_span::ReceivedSpan;
pub use record::{TelemetryRecord, TelemetryViolations};
pub use stored_session::{CheckedRuntime, StoreTelemetryCheck};
