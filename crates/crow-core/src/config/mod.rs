//! What files of the configuration have in common: how their faults are placed and told. Knows no format.

mod error;
mod error_text;

pub use error::{ConfigError, SourceText, TextPosition};
pub use error_text::{nearest, plain, unknown};
