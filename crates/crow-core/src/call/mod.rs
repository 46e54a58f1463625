//! From what a model wrote to a call that can be run.
//!
//! Models misspell names, send numbers as text and forget brackets. What can be read in only one way is mended and
//! told to the model; everything else is answered with what is wrong. A repair never adds content.

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
pub use name::alias;
pub use resolve::{InvalidCall, ResolvedCall, resolve};
