//! macOS: a Seatbelt profile, under which `sandbox-exec` starts each command.
//!
//! Everything except `sandbox-exec` itself is compiled and tested on Linux as well. So each session tries
//! it out once, and if the profile is not enforced, there is no sandbox.

mod confinement;
#[cfg(not(target_os = "linux"))]
mod covered_folders;
mod platform_sandbox;
mod seatbelt_profile;
mod seatbelt_quote;

#[cfg(not(target_os = "linux"))]
pub(super) use confinement::MacosConfinement as PlatformConfinement;
#[cfg(not(target_os = "linux"))]
pub(super) use covered_folders::{covered_folders, visible_exceptions};
#[cfg(not(target_os = "linux"))]
pub(super) use platform_sandbox::MacosSandbox as PlatformSandbox;
