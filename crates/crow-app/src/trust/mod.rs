//! Trust in projects: configuration in a workspace has no effect before the user has seen it and agreed.
//!
//! The configuration of a project is everything below its `.crow-agent`, its `.mcp.json`, and each `SKILL.md` in its
//! `.agents/skills` and `.claude/skills`. It is read once; the
//! same bytes are hashed, shown and used. Trust applies to exactly these bytes, names, links and execute bits in this
//! directory: any new, changed or removed entry makes the project untrusted again.

mod admit;
mod contents;
mod programs;
mod project;
mod state;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use admit::TrustStamp;
pub use admit::{
    Project, TrustStatus, UntrustedConfig, admit, project_of, trust_status, trust_store,
};
pub use contents::project_root;
pub(crate) use programs::{StartedServer, started_files, user_servers};
pub use project::ProjectConfig;
pub(crate) use state::TrustedState;
