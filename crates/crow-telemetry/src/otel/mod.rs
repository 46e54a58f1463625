//! Export to OpenTelemetry: spans and metrics by the conventions for generative AI, sent over HTTP.

mod conventions;
mod exporter;
#[cfg(feature = "grpc")]
mod grpc;
pub(crate) mod messages;
mod metrics;
mod settings;
#[cfg(test)]
mod tests;

pub use conventions::{ContentCapture, GenAiConventions, PriceTable, SpanEncoder};
pub use exporter::{OtelConsumer, OtelExporter, OtelReport};
pub use settings::{OtelEndpoint, OtelSettings, OtelSettingsError, OtlpProtocol};
