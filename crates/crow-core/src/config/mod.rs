//! What files of the configuration have in common: how their faults are placed and told. Knows no format.

mod error;
mod words;

pub use error::{ConfigError, SourceText, TextPosition};
pub use words::{nearest, plain, unknown};
