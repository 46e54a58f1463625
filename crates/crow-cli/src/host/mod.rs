//! The product behind the adapters (terminal, chat, editor protocol): sessions and their agents, the options of a
//! session, and its commands.

mod agents;
mod call_output;
mod changes;
mod choices;
mod commands;
mod default_model;
mod directory;
mod local_servers;
mod opened;
mod options;
mod parts;
mod places;
mod product_host;
mod prompt_files;
mod providers;
mod review;
mod starting;
mod status;
#[cfg(test)]
mod tests;

pub(crate) use agents::{AgentLimits, AgentSettings};
pub(crate) use directory::working_directory;
pub(crate) use local_servers::agreed_servers;
pub(crate) use parts::{ConfigurationSource, HostParts, Remembers, StartPlace};
pub(crate) use product_host::ProductHost;
pub(crate) use prompt_files::PromptFiles;
