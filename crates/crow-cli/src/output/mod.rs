//! The output for programs: one JSON line for each event, and one result at the end.
//!
//! The contract is versioned ([`FORMAT_VERSION`](crow_core::event::FORMAT_VERSION)) and described by a JSON Schema
//! ([`schema`]), which is stored in `docs/book/src/json-output.schema.json`.

mod advice;
mod builder;
mod exit_code;
mod joined_commands;
mod json;
mod line;
mod model_usage;
mod report;
mod run_state;
mod schema;
#[cfg(test)]
pub(crate) mod tests;
mod undo;

pub use builder::ReportBuilder;
pub(crate) use builder::{prices_of, usage_of};
pub use exit_code::{ExitCode, RunFacts};
pub(crate) use json::json_line;
pub use json::{Deltas, JsonWriter};
pub use report::{
    ErrorReport, FailureReport, RefusalReport, ReportOutcome, RunReport, UsageReport,
};
pub use schema::schema;
pub(crate) use undo::{CallLine, DiffLine, RecordLine, UndoLine};
