//! Prompts: their templates, and the facts about the environment that open a session.

mod registry;
mod style;
mod surroundings;
mod template;
#[cfg(test)]
mod tests;

pub use registry::{HANDOFF_VARIABLES, PromptRegistry, SYSTEM_VARIABLES};
pub(crate) use registry::{PROMPT_ENDINGS, PROMPT_FOLDERS};
pub use style::PromptStyle;
pub use surroundings::Surroundings;
pub(crate) use surroundings::{DATE, REPOSITORY, in_a_line};
pub use template::{Template, TemplateError};
