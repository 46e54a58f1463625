//! What a model is sent: how much of its window that takes.

mod char_classes;
#[cfg(test)]
mod tests;
mod tokens;

pub use tokens::TokenEstimator;
