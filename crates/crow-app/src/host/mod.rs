//! The product behind the adapters (terminal, chat, editor protocol): sessions and their agents, the options of a
//! session, and its commands.

mod agents;
mod call_output;
mod choices;
mod commands;
mod default_model;
mod directory;
mod directory_configs;
mod front_end_commands;
mod local_servers;
mod opened;
mod options;
mod parts;
mod product_host;
mod prompt_files;
mod providers;
mod removal;
mod review;
mod starting;
mod status;
#[cfg(test)]
mod tests;

pub use directory::working_directory;
pub use front_end_commands::{CommandSession, SessionCommands};
pub use local_servers::consented_servers;
pub use parts::{ChoiceMemory, ConfigurationSource, HostParts, StartPlace};
pub use product_host::{ProductHost, blocking};
pub use prompt_files::PromptFiles;
pub use removal::remove;
