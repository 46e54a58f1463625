//! Trust in projects: nothing of a workspace acts before the user has seen it and said so.
//!
//! A project's configuration is everything below its `.crow-agent`. It is read once; what was read is hashed, shown and
//! used. Trust holds for exactly these bytes, names, links and execute bits, at this place: whatever is new, changed or
//! gone makes it untrusted again.

mod admit;
mod contents;
mod fingerprint;
mod programs;
mod project;
mod state;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use admit::{
    Project, TrustStamp, TrustStatus, UntrustedConfig, admit, project_of, standing, trust_store,
};
pub(crate) use contents::project_root;
pub(crate) use programs::{StartedServer, started_files};
pub(crate) use project::ProjectConfig;
pub(crate) use state::TrustedState;
