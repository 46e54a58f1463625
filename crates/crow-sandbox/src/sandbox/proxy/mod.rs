//! The way from a session's commands to the hosts that the user allows: an HTTP proxy in the agent's process.
//!
//! Commands have a network with a loopback device and nothing else. There the proxy listens, and it connects from the
//! agent's own network. Who is asked for is known from the request alone, is compared with what is allowed before any
//! name is resolved, and what was resolved is what is connected to. What goes through a tunnel is not looked at. A proxy
//! that the user has set for the agent itself is not asked: connections are direct.

mod address;
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
