//! The context window: how much of it a request takes.

mod char_classes;
#[cfg(test)]
mod tests;
mod tokens;

pub use tokens::TokenEstimator;
