//! The product as adapters see it: sessions with the agent that was asked for, their options, and commands.

mod agents;
mod changes;
mod default_model;
mod directory;
mod options;
mod product_host;
#[cfg(test)]
mod tests;

pub(crate) use agents::{AgentLimits, AgentSettings};
pub(crate) use directory::working_directory;
pub(crate) use product_host::{HostParts, ProductHost};
