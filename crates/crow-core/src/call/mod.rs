//! Resolution of a model's call into one that can be run.
//!
//! Models misspell names, send numbers as text and forget brackets. Input with only one possible meaning is repaired,
//! and the model is told; everything else is answered with an error message. A repair never adds content.

mod coerce;
mod describe;
mod lenient_json;
mod resolve;
mod schema;
#[cfg(test)]
mod tests;

pub use describe::schema_misfits;
pub use lenient_json::{JsonPrefix, read_json_prefix};
pub use resolve::{InvalidCall, ResolvedCall, named_call, offered_name, resolve, resolve_alias};
