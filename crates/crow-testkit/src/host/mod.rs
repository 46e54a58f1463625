//! Hosts for tests of adapters, and what every host must do.

mod check;
mod scripted;

pub use check::check_host;
pub use scripted::ScriptedHost;
