//! The product as adapters see it: sessions with the shipped agent, their options, and commands.

mod agent;
mod changes;
mod directory;
mod options;
mod product_host;
#[cfg(test)]
mod tests;

pub(crate) use directory::working_directory;
pub(crate) use product_host::{HostParts, ProductHost};
