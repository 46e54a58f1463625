//! The context window: how much of it a request takes.

#[cfg(test)]
mod tests;
mod tokens;

pub use tokens::TokenEstimator;
