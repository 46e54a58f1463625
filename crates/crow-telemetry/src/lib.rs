//! Telemetry from events: spans, OpenTelemetry export, statistics and reports.
//!
//! Everything here consumes [`Envelope`](crow_core::event::Envelope)s, live or from a log, and gives the same results for
//! both: the loops know nothing of it. [`TraceBuilder`] folds events into [`TraceSpan`]s; [`TelemetryFeed`] hands them to
//! consumers at two levels, [`InternalTelemetry`] (turns, model calls, tool calls, handoffs) and [`AcpTelemetry`] (what a
//! prompt came to for its user).

mod consumer;
pub mod otel;
pub mod report;
pub mod statistics;
mod store;
mod trace;

pub use consumer::{AcpTelemetry, InternalTelemetry, TelemetryFeed};
pub use store::{SpanStore, SpanStoreConsumer};
pub use trace::{
    CheckWork, CompactionWork, HandoffWork, ModelCallContent, ModelCallPurpose, ModelCallWork,
    PermissionWork, QuestionWork, RunTotals, SpanOutcome, SpanTree, SpanWork, ToolCallContent,
    ToolCallWork, TraceBuilder, TraceSpan, TurnWork, VerdictWork,
};
