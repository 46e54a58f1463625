//! macOS: a profile for Seatbelt, under which `sandbox-exec` starts each command.
//!
//! All of it is compiled and tested on Linux as well, but for the one thing that only macOS has: the program that makes the
//! kernel obey the profile. So it is tried out once in each session, and what does not hold there counts as nothing.

mod confinement;
#[cfg(not(target_os = "linux"))]
mod covered_folders;
mod platform_sandbox;
mod seatbelt_profile;
mod seatbelt_quote;

#[cfg(not(target_os = "linux"))]
pub(super) use confinement::MacosConfinement as PlatformConfinement;
#[cfg(not(target_os = "linux"))]
pub(super) use covered_folders::{covered, kept};
#[cfg(not(target_os = "linux"))]
pub(super) use platform_sandbox::MacosSandbox as PlatformSandbox;
