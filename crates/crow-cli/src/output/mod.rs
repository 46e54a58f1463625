//! The output for programs: one JSON line for each event, and one result at the end.
//!
//! The contract is versioned ([`FORMAT_VERSION`](crow_core::event::FORMAT_VERSION)) and described by a JSON Schema
//! ([`schema`]), which is stored in `docs/book/src/json-output.schema.json`.

mod context;
mod json;
mod telemetry;
#[cfg(test)]
pub(crate) mod tests;
mod undo;

pub(crate) use context::{ContextCompactionLine, ContextLine, ContextRequestLine};
pub use json::{Deltas, JsonWriter, schema};
pub(crate) use json::{output_line, visible_json};
pub(crate) use telemetry::{LedgerLine, SpanLine, StatisticsLine, WireLine};
pub(crate) use undo::{CallLine, DiffLine, RecordLine, UndoLine};
