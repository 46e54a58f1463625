//! From what a model wrote to a call that can be run.

mod resolve;

pub use resolve::{InvalidCall, ResolvedCall, resolve};
