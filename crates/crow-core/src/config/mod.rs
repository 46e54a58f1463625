//! Errors of configuration files: their positions and texts. Independent of the file format.

mod error;
mod error_text;

pub use error::{ConfigError, SourceText, TextPosition};
pub use error_text::{nearest, reword_serde_error, unknown_word_message};
