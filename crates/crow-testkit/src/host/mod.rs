//! A host for tests of adapters, and conformance checks for all hosts.

mod check;
mod scripted;

pub use check::check_host;
pub use scripted::ScriptedHost;
