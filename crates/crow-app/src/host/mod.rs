//! The product behind the adapters (terminal, chat, editor protocol): sessions and their agents, the options of a
//! session, and its commands.

mod agents;
mod check_proposal;
mod choices;
mod commands;
mod default_model;
mod directory_configs;
mod file_commands;
mod front_end_commands;
mod opened;
mod options;
mod product_host;
mod providers;
mod starting;
#[cfg(test)]
mod tests;

pub use commands::{host_command_names, output_of, server_state};
pub use default_model::{SEND_PROMPTS_QUESTION, agree_to_server, consented_servers, no_model};
pub use directory_configs::working_directory;
pub use file_commands::{FileCommand, FileCommandKind, file_commands};
pub use front_end_commands::{CommandSession, SessionCommands, SessionRecord};
pub use product_host::{
    ChoiceMemory, ConfigurationSource, HostParts, ProductHost, StartPlace, blocking, remove,
    session_title,
};
