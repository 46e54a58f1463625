//! The product behind the adapters (terminal, chat, editor protocol): sessions and their agents, the options of a
//! session, and its commands.

mod agents;
mod call_output;
mod changes;
mod choices;
mod commands;
mod default_model;
mod directory;
mod directory_configs;
mod local_servers;
mod opened;
mod options;
mod parts;
mod product_host;
mod prompt_files;
mod providers;
mod review;
mod starting;
mod status;
#[cfg(test)]
mod tests;

pub(crate) use directory::working_directory;
pub(crate) use local_servers::consented_servers;
pub(crate) use parts::{ChoiceMemory, ConfigurationSource, HostParts, StartPlace};
pub(crate) use product_host::ProductHost;
pub(crate) use prompt_files::PromptFiles;
