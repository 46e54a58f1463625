//! Spans: pieces of work with a beginning, an end and a parent, folded from events.

mod builder;
mod content;
mod open_work;
mod outcome;
mod span;
#[cfg(test)]
mod tests;
mod tree;

pub use builder::TraceBuilder;
pub use content::{ModelCallContent, ToolCallContent};
pub use span::{
    CheckWork, CompactionWork, HandoffWork, ModelCallPurpose, ModelCallWork, PermissionWork,
    QuestionWork, RunTotals, SpanOutcome, SpanWork, ToolCallWork, TraceSpan, TurnWork, VerdictWork,
};
pub use tree::SpanTree;
