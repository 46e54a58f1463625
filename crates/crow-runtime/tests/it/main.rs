//! The runtime on real files and real processes.
#![expect(clippy::unwrap_used, reason = "tests fail loudly")]

mod processes;
mod rules;
mod runtime;
mod sessions;
