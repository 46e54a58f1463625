//! Prompts: their templates, and the surroundings that open a session.

mod check;
mod registry;
mod surroundings;
mod template;
#[cfg(test)]
mod tests;
mod variables;

pub use registry::PromptRegistry;
pub(crate) use registry::{PROMPT_ENDINGS, PROMPT_FOLDERS};
pub(crate) use surroundings::REPOSITORY;
pub use surroundings::Surroundings;
pub use template::{Template, TemplateError};
pub use variables::{HANDOFF_VARIABLES, SYSTEM_VARIABLES};
