//! Linux: namespaces, Landlock and seccomp.

mod attribute_calls;
mod attribute_request;
mod calling_thread;
mod child;
mod confinement;
mod files;
mod filter;
mod ground;
mod hidden_places;
mod init;
mod instructions;
mod keeper;
mod memory_ranges;
mod namespaces;
mod places;
mod plan;
mod report;
mod rights;
mod session_processes;
mod socket_list;
mod sockets;
mod steps;
mod supervisor;

pub(super) use child::reset_ignored_signals;
pub(super) use confinement::LinuxConfinement as PlatformConfinement;
pub(super) use ground::LinuxSandbox as PlatformSandbox;
pub(super) use places::{covered, kept};
