//! What a model is sent: how much of its window that takes.

mod classes;
#[cfg(test)]
mod tests;
mod tokens;

pub use tokens::TokenEstimator;
