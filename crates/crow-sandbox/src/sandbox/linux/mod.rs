//! Linux: namespaces, Landlock and seccomp.
//!
//! Much of this runs after fork or serves many commands, where a panic would do more than end one call, so nothing may
//! panic.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::indexing_slicing, clippy::string_slice))]

mod attribute_calls;
mod attribute_request;
mod attribute_supervisor;
mod bpf_instructions;
mod calling_thread;
mod child;
mod confinement;
mod hidden_paths;
mod init;
mod init_report;
mod keeper;
mod landlock;
mod memory_ranges;
mod mount_plan;
mod mount_steps;
mod namespaces;
mod plan_codec;
mod platform_sandbox;
mod privileges;
mod session_processes;
mod socket_list;
mod sockets;
mod syscall_filter;

pub(super) use child::reset_ignored_signals;
pub(super) use confinement::LinuxConfinement as PlatformConfinement;
pub(super) use mount_plan::{covered_folders, visible_exceptions};
pub(super) use platform_sandbox::LinuxSandbox as PlatformSandbox;
