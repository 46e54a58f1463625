//! macOS: a profile for Seatbelt, under which `sandbox-exec` starts each command.
//!
//! All of it is compiled and tested on Linux as well, but for the one thing that only macOS has: the program that makes the
//! kernel obey the profile. So it is tried out once in each session, and what does not hold there counts as nothing.

mod confinement;
mod ground;
#[cfg(not(target_os = "linux"))]
mod places;
mod profile;
mod quote;

#[cfg(not(target_os = "linux"))]
pub(super) use confinement::MacosConfinement as PlatformConfinement;
#[cfg(not(target_os = "linux"))]
pub(super) use ground::MacosSandbox as PlatformSandbox;
#[cfg(not(target_os = "linux"))]
pub(super) use places::{covered, kept};
