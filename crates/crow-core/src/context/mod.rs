//! The context window: how much of it a request takes.

mod json_size;
#[cfg(test)]
mod tests;
mod tokens;

pub use json_size::{blocks_bytes, json_length, reply_block_bytes};
pub use tokens::TokenEstimator;
