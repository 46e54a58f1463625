//! Prompts: their templates, and the facts about the environment that open a session.

mod check;
mod registry;
mod surroundings;
mod template;
#[cfg(test)]
mod tests;
mod variables;

pub use registry::PromptRegistry;
pub(crate) use registry::{PROMPT_ENDINGS, PROMPT_FOLDERS};
pub use surroundings::Surroundings;
pub(crate) use surroundings::{DATE, REPOSITORY, in_a_line};
pub use template::{Template, TemplateError};
pub use variables::{HANDOFF_VARIABLES, SYSTEM_VARIABLES};
