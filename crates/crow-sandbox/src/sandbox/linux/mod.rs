//! Linux: namespaces, Landlock and seccomp.

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
