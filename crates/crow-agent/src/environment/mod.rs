//! The environment of a session: facts that its model is told, kept current while it works.
//!
//! The first message of a session has a snapshot. Later changes are appended as `<environment_update>`: what was sent
//! stays as it is. What the model was told is read from its conversation, so a resumed, rewound or compacted session
//! needs no other record. After a compaction that replaced messages by a summary, a fresh snapshot is appended.

mod probe;
mod seen_files;
mod session_environment;

pub use session_environment::SessionEnvironment;
pub(crate) use session_environment::{
    add_input, call_model_beside_probe, record_calls, record_checks, report_changes,
};
