//! Tests of the panel by sequences of events.

mod agents;
mod properties;
mod robustness;
mod run_rows;
mod script;
