//! Reading of tool calls that a model writes as text.
//!
//! [`read_text_calls`] reads a complete reply. [`CallScanner`] finds the places where a call may begin; it sees the text
//! as it arrives, so that everything before such a place can be shown at once. A place is parsed by the module of its
//! form: [`tagged`] for markup in angle brackets, [`tokens`] for the special tokens of model families, [`python`] for calls
//! in the form of Python, [`bare`] for calls without any marks, [`script`] for code blocks that are commands. [`envelope`] reads the JSON object that names tool and
//! arguments.

mod bare;
mod envelope;
mod marker;
mod python;
mod python_literal;
mod reading;
mod scanner;
mod script;
mod tagged;
mod tokens;

pub(super) use envelope::OfferedTools;
pub(super) use reading::{ReadingPart, TextReading, read_text_calls};
pub(super) use scanner::CallScanner;
pub(super) use script::{SHELL_TOOL, script_text};

#[cfg(test)]
mod tests;
