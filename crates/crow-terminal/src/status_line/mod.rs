//! The status line below the prompt, which users compose as a template such as `{agent} · {model:accent} · {cost}`.
//!
//! A template consists of segments with separators between them. Separators are `·`, `•`, `|` and `│`, `/`, `-`, `–` and
//! `—` between blanks, and blanks alone between two fields. A segment with an empty field is left out, and its separator
//! with it.

mod facts;
mod field;
mod parser;
mod segment;
mod template;
#[cfg(test)]
mod tests;

pub(crate) use facts::StatusFacts;
pub use parser::StatusTemplateError;
pub use template::StatusTemplate;
