//! Model profiles: the adaptation of agents to a family of models.
//!
//! A profile is a file `profiles/NAME.toml` in the layers of the configuration. It says which models it is for, and
//! what they get: the style of the system prompt, the tools, their descriptions, the form of tool calls, and how much
//! they think at each step. Profiles only take away, reword and rearrange: they give no agent a tool that its file does
//! not name, except that one edit tool stands for the other. A setting of the user, of an agent or of a provider's file
//! counts more than a profile.

mod adapt;
mod parameters;
mod raw;
mod registry;
#[cfg(test)]
mod tests;
mod types;

pub use raw::profile_schema;
pub use registry::{ListedProfile, ProfileRegistry};
pub use types::{EditTool, ModelProfile, StepThinking, ToolDescription};
