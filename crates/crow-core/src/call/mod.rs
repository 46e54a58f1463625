//! Resolution of a model's call into one that can be run.
//!
//! Models misspell names, send numbers as text and forget brackets. Input with only one possible meaning is repaired,
//! and the model is told; everything else is answered with an error message. A repair never adds content.

mod argument_path;
mod coerce;
mod describe;
mod keys;
mod lenient_json;
mod name;
mod resolve;
mod schema;
#[cfg(test)]
mod tests;

pub use describe::schema_misfits;
pub use lenient_json::{JsonPrefix, read_json_prefix};
pub use name::{offered_name, resolve_alias};
pub use resolve::{InvalidCall, ResolvedCall, resolve};
