//! HTTP proxy in the agent's process, by which commands of a session reach the hosts that the user allows.
//!
//! Commands have a network with only a loopback device. The proxy listens there, and connects from the
//! agent's own network. The target is taken from the request alone and checked against the rules before any
//! name is resolved, and connections go to the addresses that were resolved and checked. Data in a tunnel
//! is not inspected. A proxy that the user has configured for the agent itself is not used: connections are
//! direct.

mod connection;
mod dial;
mod proxy_error;
mod pump;
mod refused_hosts;
mod request;
mod server;
#[cfg(test)]
mod tests;

pub(super) use refused_hosts::RefusalWindow;
pub(super) use server::Proxy;
